"""Deformable bodies: solids, membranes, bending and springs of particles, with contact, and their adjoints."""
