"""Where the bytes come from: the stream of a server, files, and SQL queries to a server."""
