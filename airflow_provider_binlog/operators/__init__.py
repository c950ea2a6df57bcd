"""Operators: archive, extract, backlog, snapshot, merge, checkpoint."""
