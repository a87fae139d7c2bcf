"""Recommenders that learn from D2P's AlterEgos, the known substitution undone."""
