"""The database's versions, applied at start."""
