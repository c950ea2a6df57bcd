"""Waiting for the log to grow, in the triggerer."""
