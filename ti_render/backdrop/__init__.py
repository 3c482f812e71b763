"""Ground and background behind the faces, with adjoint and tangent."""
