"""The device: reading a viewing history, choosing what leaves it, and showing recommendations."""
