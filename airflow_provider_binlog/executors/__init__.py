"""Chunks and sub-ranges read by Spark's executors, with the code that Airflow workers run."""
