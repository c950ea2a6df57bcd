"""Chunks and sub-ranges that Spark's executors read: a task each, with the code that workers run.

A task writes what it read to the staging folder itself, and hands back a count or an error. Nothing
of a row passes through Spark.
"""
