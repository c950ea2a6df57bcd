"""`make demo` and `make ui`: a shop's changes, from a real server into lake tables."""
