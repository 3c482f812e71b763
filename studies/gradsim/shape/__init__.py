"""The shape of a body from films."""
