"""MySQL's binary JSON: scalars, documents and partial updates, one document at a time."""
