"""Smoke in a plane: advection on a grid, buoyancy, viscosity, vorticity confinement, and pressure that keeps the volume."""

from ti_sim.smoke.model import SmokeInputs, SmokeModel, SmokeSettings
from ti_sim.smoke.solver import SmokeRollout, SmokeSolver

__all__ = ["SmokeInputs", "SmokeModel", "SmokeRollout", "SmokeSettings", "SmokeSolver"]
