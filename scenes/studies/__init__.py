"""Programs that run the scenes: studies whose tables and pictures the documentation shows."""
