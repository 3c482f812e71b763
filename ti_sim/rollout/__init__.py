"""Code that solvers share: rollouts, stored states and adjoints, input arrays, diverged worlds, free rotation, Runge-Kutta."""
