"""Estimates of the initial poses and velocities from the first pictures of a film."""
