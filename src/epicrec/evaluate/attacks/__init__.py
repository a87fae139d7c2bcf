"""Attacks that people have used or would, and how far each gets with and without privacy."""
