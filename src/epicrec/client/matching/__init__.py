"""Matching: which film or series of the catalogue a title, a page or another list means."""
