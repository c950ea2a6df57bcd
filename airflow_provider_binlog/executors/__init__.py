"""Chunks and sub-ranges read by Spark's executors, a task for each, with the code that workers run.

A task stages its rows itself, and returns a count or an error: no row passes through Spark.
"""
