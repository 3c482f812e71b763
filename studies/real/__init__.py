"""Measured data: tosses of a cube (ContactNets), a double pendulum (DFKI), and films of measured motions."""
