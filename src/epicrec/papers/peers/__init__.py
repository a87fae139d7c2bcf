"""Methods of other authors, to compare with."""
