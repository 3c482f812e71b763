"""State heads: what RISP reads from a picture, how it is normalised, and how states are drawn for training."""
