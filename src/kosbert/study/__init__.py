"""Studies: compare training variants over seeds, test the differences for significance, and write a report."""
