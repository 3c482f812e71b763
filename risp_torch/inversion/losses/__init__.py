"""Losses between a simulated film and its target: pixels, features of a network, predicted states or true states."""
