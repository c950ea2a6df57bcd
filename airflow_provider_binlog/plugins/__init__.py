"""The page in Airflow's UI: what it shows is a value of `status/` or `sources/`."""
