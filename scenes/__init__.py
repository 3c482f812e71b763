"""Scenes, a file for each, and the demonstration of what is read from films of them."""
