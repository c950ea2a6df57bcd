"""Airflow in one process: its database is made, then the DAG is run as often as asked."""

from __future__ import annotations

import os

from tests.support.worker import serve

DAG_ID = "binlog_shop"


def run_dag(start: str) -> tuple[str, str]:
    """Run the DAG once to its end; return the run's id and state.

    Where the log begins is known only when the server runs, which is later than Airflow starts.
    """
    from airflow.dag_processing.dagbag import DagBag

    os.environ["BINLOG_SHOP_START"] = start

    bag = DagBag(os.environ["AIRFLOW__CORE__DAGS_FOLDER"])
    for file, error in bag.import_errors.items():
        raise ImportError(f"{file}: {error}")
    run = bag.dags[DAG_ID].test()
    return str(run.run_id), str(run.state)


def main() -> None:
    """Make the database, and wait for calls."""
    from airflow.utils.db import initdb

    initdb()
    serve({"run_dag": run_dag, "ready": lambda: None})


if __name__ == "__main__":
    main()
