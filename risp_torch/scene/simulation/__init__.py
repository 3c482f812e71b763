"""How a scene moves: a motion for each solver, and the frozen plan that simulates."""
