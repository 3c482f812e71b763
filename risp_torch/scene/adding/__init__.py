"""Functions that add parts to a scene, one file for each kind; they are methods of ``Scene``."""
