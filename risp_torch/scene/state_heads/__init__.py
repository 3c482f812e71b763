"""State heads: the outputs that RISP predicts, their normalisation, and the sampling of states for training."""
