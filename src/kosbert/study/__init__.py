"""Studies: a question, the runs that answer it, and a report worth looking at."""
