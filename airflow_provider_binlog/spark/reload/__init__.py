"""A snapshot with the log after it, as the whole content of a lake table."""
