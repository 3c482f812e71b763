"""Table 3: numbers of deformable bodies."""
