"""How a scene is seen: the renderer's arrays, and the frozen plan that films motions."""
