"""What a scene consists of: records whose numbers stand in the table, and how these become rows of arrays."""
