"""Vector backends of an index, one per file."""
