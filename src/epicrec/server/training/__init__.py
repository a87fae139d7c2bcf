"""Jobs beside the service: lists from releases, and the published item model."""
