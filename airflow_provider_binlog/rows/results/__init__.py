"""The rows of a SELECT, in lock-step: the same Arrow columns as from the log."""
