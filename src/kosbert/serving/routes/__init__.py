"""HTTP routes, one API per file."""
