"""Rendering domains: how the pictures look that RISP is trained on, that the inversion loop renders, and that it is given."""
