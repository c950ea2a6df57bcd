"""The log that a task reads: the binary log of a server, or files of one; both are a `Log`.

Airflow is not imported here, so that the command line needs none. The sensor and the trigger, which
load neither NumPy nor Arrow, use the settings, the start and the state alone, not the logs.
"""
