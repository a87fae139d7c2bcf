"""Ranking: rows of recommendations, computed on this device from the true history."""
