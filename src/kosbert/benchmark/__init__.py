"""Speed measurements: inference methods side by side in one process, for `kosbert bench` and the efficiency study."""
