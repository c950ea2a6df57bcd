"""Lake tables: what a merge reads of them, and commits to them."""
