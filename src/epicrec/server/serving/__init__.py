"""What the server recommends: lists of the newest training, or the order of the published model."""
