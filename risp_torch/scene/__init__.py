"""Scenes: what users write, and the torch functions that run and render it."""
