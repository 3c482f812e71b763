"""Articulated bodies in reduced coordinates: trees of links on joints, their dynamics, and hand-written adjoints."""
