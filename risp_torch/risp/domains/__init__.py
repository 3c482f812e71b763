"""Rendering domains: appearances of the training images, of the inversion loop, and of the target."""
