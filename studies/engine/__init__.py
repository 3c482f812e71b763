"""Accuracy of contact, friction and implicit steps."""
