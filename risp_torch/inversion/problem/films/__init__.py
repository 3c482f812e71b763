"""Films of an inversion: the target, films of parameter values, and several films of one scene."""
