"""Deformable bodies and links that meet each other, advanced together."""
