"""Shapes of bodies: meshes, mass properties and contact points (SI units, float64, numpy only)."""
