"""The binlog's format, one event at a time: bytes in, values out, standard library only."""
