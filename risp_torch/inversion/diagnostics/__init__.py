"""Diagnostics: misfit, misspecification, observability, gradient checks and loss landscapes."""
