"""The replication stream of a live server: commands, packets, the dump."""
