"""Neighbours: items scored by similar items, or by similar people."""
