"""Sources of bytes: the stream of a server, files, and SQL queries to a server."""
