"""Small DAGs that are also tests."""
