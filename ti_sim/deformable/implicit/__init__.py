"""Implicit steps of deformable bodies, and their adjoint by the implicit function theorem."""
