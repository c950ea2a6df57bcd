"""Sensors on the log of a source."""
