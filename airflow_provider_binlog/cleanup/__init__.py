"""Removal of staged files that no lake needs any more."""
