"""Table 4, left: answers from scenes that are wrong."""
