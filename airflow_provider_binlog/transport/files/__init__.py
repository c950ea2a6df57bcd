"""Binlog files: their names, their order, their content, where they end."""
