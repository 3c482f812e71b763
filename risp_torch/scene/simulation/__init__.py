"""Simulation of a scene: a motion for each solver, and the frozen plan that runs it."""
