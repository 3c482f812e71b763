"""Articulated bodies in reduced coordinates: trees of links and joints, their dynamics, and hand-written adjoints."""
