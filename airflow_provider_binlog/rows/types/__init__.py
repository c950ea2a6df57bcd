"""One module per family of column types: located bytes in, an Arrow column out."""
