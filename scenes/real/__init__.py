"""Scenes of public data sets with measured truth; they can be made without the data."""
