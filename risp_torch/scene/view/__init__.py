"""Rendering of a scene: the renderer's arrays, and the frozen plan that renders motions."""
