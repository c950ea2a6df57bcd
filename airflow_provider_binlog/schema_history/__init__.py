"""The schema that a row was logged with, and the identity of its table and columns."""
