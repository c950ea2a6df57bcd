"""`python -m airflow_provider_binlog …`: the command line where Airflow is not set up."""

from __future__ import annotations

import sys

from airflow_provider_binlog.cli.commands import main

if __name__ == "__main__":
    sys.exit(main())
