"""PostgreSQL tables: one transaction commits all tables of a merge, with their marks."""
