"""RISP's tables: every cell of the paper's evaluation as a unit of work, and pages that show them."""
