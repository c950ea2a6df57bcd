"""The values: row images in, Arrow columns out, vectorised. NumPy and PyArrow, no I/O."""
