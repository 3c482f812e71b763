"""What is behind all faces: ground and background, their adjoint and their tangent."""
