"""The log that a task reads: the binary log of a server, or files of one; both are a `Log`."""
