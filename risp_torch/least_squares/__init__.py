"""Damped Gauss-Newton: one loop with exchangeable Jacobian, damping, step search, acceptance, termination and horizon.

The parts follow the textbook treatment of nonlinear least squares (Nocedal and Wright, Numerical Optimization, chapter 10). A
search of the library is a ``Policy`` of the loop, whose constants stand in one place, and a ``LeastSquaresProblem``. A damping
rule may keep the inverse of a matrix over several rounds (``inverse_reuse``).
"""
