"""The perceptual loss and the networks whose features it compares."""
