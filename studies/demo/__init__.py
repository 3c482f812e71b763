"""The demonstration, ``make demo``."""
