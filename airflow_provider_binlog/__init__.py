"""Change data capture from MySQL and MariaDB as ordinary Airflow tasks.

Import from here what a DAG needs. Each name is loaded when it is first used, so that parsing a DAG
loads only what the DAG uses.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = [
    "BinlogArchiveOperator",
    "BinlogCheckpointOperator",
    "BinlogCleanupOperator",
    "BinlogCommitOperator",
    "BinlogExtractOperator",
    "BinlogFollowOperator",
    "BinlogHook",
    "BinlogMaintenanceOperator",
    "BinlogMergeOperator",
    "BinlogNotLiveNotifier",
    "BinlogPlanOperator",
    "BinlogPositionSensor",
    "BinlogPositionTrigger",
    "BinlogRetentionSensor",
    "BinlogSnapshotOperator",
    "BinlogSnapshotPlanOperator",
    "BinlogSource",
    "BinlogSubRangeOperator",
    "BinlogTablesLiveOperator",
    "BinlogWatcherTrigger",
    "Limits",
    "TableOptions",
    "binlog_to_lake",
    "binlog_to_lake_dag",
    "delta_conf",
    "iceberg_conf",
    "merge_arguments",
    "read_published",
]

if TYPE_CHECKING:
    from airflow_provider_binlog.hooks.binlog import BinlogHook
    from airflow_provider_binlog.limits import Limits
    from airflow_provider_binlog.notifications.tables import BinlogNotLiveNotifier
    from airflow_provider_binlog.operators.backlog import (
        BinlogArchiveOperator,
        BinlogCommitOperator,
        BinlogPlanOperator,
        BinlogSubRangeOperator,
    )
    from airflow_provider_binlog.operators.cleanup import BinlogCleanupOperator
    from airflow_provider_binlog.operators.extract import (
        BinlogCheckpointOperator,
        BinlogExtractOperator,
    )
    from airflow_provider_binlog.operators.follow import BinlogFollowOperator
    from airflow_provider_binlog.operators.maintenance import BinlogMaintenanceOperator
    from airflow_provider_binlog.operators.merge import BinlogMergeOperator, merge_arguments
    from airflow_provider_binlog.operators.snapshot import (
        BinlogSnapshotOperator,
        BinlogSnapshotPlanOperator,
    )
    from airflow_provider_binlog.operators.tables_live import BinlogTablesLiveOperator
    from airflow_provider_binlog.sensors.binlog import BinlogPositionSensor
    from airflow_provider_binlog.sensors.retention import BinlogRetentionSensor
    from airflow_provider_binlog.sources.binlog_source import BinlogSource
    from airflow_provider_binlog.spark.job.session import delta_conf, iceberg_conf
    from airflow_provider_binlog.spark.published import read_published
    from airflow_provider_binlog.table_options import TableOptions
    from airflow_provider_binlog.task_groups.binlog_to_lake import (
        binlog_to_lake,
        binlog_to_lake_dag,
    )
    from airflow_provider_binlog.triggers.binlog import (
        BinlogPositionTrigger,
        BinlogWatcherTrigger,
    )

MODULES = {
    "BinlogArchiveOperator": "operators.backlog",
    "BinlogCheckpointOperator": "operators.extract",
    "BinlogCleanupOperator": "operators.cleanup",
    "BinlogCommitOperator": "operators.backlog",
    "BinlogExtractOperator": "operators.extract",
    "BinlogFollowOperator": "operators.follow",
    "BinlogHook": "hooks.binlog",
    "BinlogMaintenanceOperator": "operators.maintenance",
    "BinlogMergeOperator": "operators.merge",
    "BinlogNotLiveNotifier": "notifications.tables",
    "BinlogPlanOperator": "operators.backlog",
    "BinlogPositionSensor": "sensors.binlog",
    "BinlogPositionTrigger": "triggers.binlog",
    "BinlogRetentionSensor": "sensors.retention",
    "BinlogSnapshotOperator": "operators.snapshot",
    "BinlogSnapshotPlanOperator": "operators.snapshot",
    "BinlogSource": "sources.binlog_source",
    "BinlogSubRangeOperator": "operators.backlog",
    "BinlogTablesLiveOperator": "operators.tables_live",
    "BinlogWatcherTrigger": "triggers.binlog",
    "Limits": "limits",
    "TableOptions": "table_options",
    "binlog_to_lake": "task_groups.binlog_to_lake",
    "binlog_to_lake_dag": "task_groups.binlog_to_lake",
    "delta_conf": "spark.job.session",
    "iceberg_conf": "spark.job.session",
    "merge_arguments": "operators.merge",
    "read_published": "spark.published",
}
"""The module of each exported name."""


if not TYPE_CHECKING:  # else every name would pass for one of the package's

    def __getattr__(name: str) -> Any:
        if name not in MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
