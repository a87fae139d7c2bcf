"""The whole job once, on the embedded films."""
