"""Evaluation of networks: test sets with held-out appearances, errors, tables and sheets."""
