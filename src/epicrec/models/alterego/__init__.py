"""Recommenders that learn from AlterEgos, the known law of substitution undone."""
