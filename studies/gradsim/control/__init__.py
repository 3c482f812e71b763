"""Figures 5 and 6: control."""
