"""The whole job once, on the embedded films: learn privately, then recommend from a true history."""
