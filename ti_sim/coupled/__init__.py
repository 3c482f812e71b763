"""Coupled simulation of deformable bodies and links, with contact between them."""
