"""Slow references in plain numpy, and scenes, that the tests of both precisions share."""
