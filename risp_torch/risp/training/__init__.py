"""Training of RISP: losses, presets, and the resumable training loop."""
