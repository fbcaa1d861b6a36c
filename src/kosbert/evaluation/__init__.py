"""Evaluation: STS, transfer and retrieval scores, diagnostics, and the statistics to compare models."""
