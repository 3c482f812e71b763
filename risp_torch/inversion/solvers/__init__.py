"""Searches of an inversion: Levenberg-Marquardt, gradient descent, wide differences, CMA-ES, registration and refinement."""
