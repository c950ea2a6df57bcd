"""Change data capture from MySQL and MariaDB as ordinary Airflow tasks."""

__version__ = "0.1.0"
