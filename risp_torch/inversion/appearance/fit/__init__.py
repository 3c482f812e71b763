"""The separable least-squares problem of an appearance, and its solver."""
