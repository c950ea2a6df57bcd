"""`cleanup`, `forget`: remove the staged files of a source that no lake needs any more."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_provider_binlog.checkpoint import checkpoint_key, load
from airflow_provider_binlog.cleanup.lakes import forget_lake, forget_table
from airflow_provider_binlog.cleanup.removal import clean_up, plan_cleanup
from airflow_provider_binlog.cli.output import print_record, print_records
from airflow_provider_binlog.cli.source import MetastoreVariableStore, open_staging
from airflow_provider_binlog.names import read_table_name

_NEXT = "cleanups continue without it; if it is merged again, it is loading until it is reloaded"


def clean(arguments: argparse.Namespace) -> None:
    """Remove what no lake needs, or print it.

    Raises:
        CheckpointError: The checkpoint is damaged.
        ConfigurationError: The grace period is shorter than a day.
        StagingError: The store failed, or a manifest is unreadable.
    """
    store, source = open_staging(arguments.staging_path), arguments.name
    checkpoint = load(MetastoreVariableStore(), checkpoint_key(source))
    plan = plan_cleanup(
        store,
        source,
        checkpoint=None if checkpoint is None else checkpoint.sequence,
        grace=timedelta(days=arguments.grace_days),
        now=datetime.now(UTC),
    )
    if not arguments.dry_run:
        clean_up(store, source, plan)
    for line in plan.kept:
        sys.stderr.write(f"note: {line}\n")
    records: list[dict[str, Any]] = (
        [vars(removal) for removal in plan.removals]
        if arguments.dry_run
        else [{"reason": why, "files": files, "bytes": size} for why, files, size in plan.totals]
    )
    print_records(records, arguments.output)


def forget(arguments: argparse.Namespace) -> None:
    """Forget a lake or a table of it; its rows stay as they are.

    Raises:
        ConfigurationError: There is no such lake or table.
    """
    store = open_staging(arguments.staging_path)
    if arguments.table is None:
        forget_lake(store, arguments.name, arguments.lake)
    else:
        table = read_table_name(arguments.table)
        forget_table(store, arguments.name, arguments.lake, table)
    record = {"forgotten": arguments.table or arguments.lake, "next": _NEXT}
    print_record(record, arguments.output)
