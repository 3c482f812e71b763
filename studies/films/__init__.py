"""Numbers from films that are simulated, compressed and inverted again."""
