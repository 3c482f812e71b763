"""Parts of an appearance model: colours on faces, shading, shadows and the background plate."""
