"""Whole pipelines as one call."""
