"""Whole pipelines as one call; each task in them can also be used alone."""
