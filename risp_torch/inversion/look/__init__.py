"""The look of a film solved from the film: colours, light, exposure, and what stands behind, for a given motion."""
