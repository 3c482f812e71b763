"""Scenes and scripted inversions: what users write."""
