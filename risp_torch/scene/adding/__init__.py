"""Functions that put things into a scene, one file for each kind of thing; ``Scene`` has them as methods."""
