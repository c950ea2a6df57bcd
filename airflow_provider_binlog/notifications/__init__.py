"""Messages about tables, by Airflow's own notifiers."""
