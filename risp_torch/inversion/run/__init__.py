"""The inversion from its arguments to its result."""
