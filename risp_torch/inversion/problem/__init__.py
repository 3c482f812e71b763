"""Inverse problems: unknowns, priors, films and the comparison of a simulated film with its target."""
