"""Shading: surfaces, textures, lights, shadows; each function beside its adjoint and its tangent."""
