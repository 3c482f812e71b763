"""Geometry: poses, projection, normals, the lens; each kernel beside its adjoint and its tangent."""
