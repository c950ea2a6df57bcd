"""The Airflow hook, and what the Airflow surface shares: variables, object storage, retries."""
