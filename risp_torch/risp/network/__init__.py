"""The RISP network: a residual network that predicts the state of a scene from one picture, and its files."""
