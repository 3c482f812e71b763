"""How well networks read states: test sets of unseen appearances, the errors on them, and tables and pictures of these."""
