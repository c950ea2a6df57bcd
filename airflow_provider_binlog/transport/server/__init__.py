"""SQL queries to a server: version, setup, positions, information_schema, rows of a SELECT."""
