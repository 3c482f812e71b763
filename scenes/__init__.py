"""Scenes, one per file."""
