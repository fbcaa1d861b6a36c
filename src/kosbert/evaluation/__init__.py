"""Scores that others can trust: correlations over the whole corpus, with intervals."""
