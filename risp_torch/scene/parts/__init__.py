"""Parts of a scene: records whose parameters are in the table, and their conversion to rows of solver and renderer arrays."""
