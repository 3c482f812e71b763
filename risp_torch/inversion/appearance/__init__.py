"""Solved appearance: colours, light, exposure and background of a film, for a known motion."""
