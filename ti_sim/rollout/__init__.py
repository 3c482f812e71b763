"""Code that all solvers share: rollouts, stored states and adjoints, input arrays, diverged worlds."""
