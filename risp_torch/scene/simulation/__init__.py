"""Simulation of a scene: an adapter for each solver, and the frozen plan that runs it."""
