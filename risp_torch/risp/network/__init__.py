"""The RISP network: a residual network that reads a scene's state from one picture, and its files."""
