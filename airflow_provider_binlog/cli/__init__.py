"""The command line: `airflow binlog …` and `python -m airflow_provider_binlog …`."""
