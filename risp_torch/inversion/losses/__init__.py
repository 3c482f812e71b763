"""What a simulated film and its target are compared by: pixels, a network's features, predicted states or true states."""
