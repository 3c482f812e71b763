"""Training of RISP: its losses, presets, and the loop that survives being killed."""
