"""Figures 4, 7, 11 and 12: losses along one number, and looks that are not known."""
