"""SQL text: the one reader of it, for everything above."""
