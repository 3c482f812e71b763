"""Rigid bodies: quaternion state, world-frame angular momentum, compliant contact with the ground."""
