"""Side-by-side speed measurements."""
