"""Staging of a range: source, transactions, rows, parts, manifest."""
