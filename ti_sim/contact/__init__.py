"""Contact law of a point, friction that sticks, and contact geometry of shapes, for all solvers."""
