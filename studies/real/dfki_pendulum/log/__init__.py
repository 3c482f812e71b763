"""The log of angles and torques, and fits to it."""
