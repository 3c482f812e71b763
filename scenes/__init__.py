"""Scenes, a file for each."""
