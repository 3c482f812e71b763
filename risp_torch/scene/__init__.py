"""Scenes: their description by users, and the torch functions that simulate and render them."""
