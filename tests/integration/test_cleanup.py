"""A cleanup beside real lakes: what it keeps is enough, and what it removed is named."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from airflow_provider_binlog.cleanup.removal import clean_up, plan_cleanup
from airflow_provider_binlog.staging.paths import StoredFiles, list_manifests
from tests.unit.spark.made_snapshots import take_snapshot
from tests.unit.spark.staged_changes import INT, TEXT
from tests.unit.spark.workplace import in_either_format

if TYPE_CHECKING:
    from tests.unit.spark.history import Table
    from tests.unit.spark.workplace import Workplace

GRACE = timedelta(days=7)


@in_either_format
def test_a_lake_that_is_restored_after_a_cleanup_is_merged_again_or_reloaded(
    workplace: Workplace,
) -> None:
    source = workplace.new_source()
    table = source.create(workplace.database, "a/b", {"id": INT, "from": TEXT}, ("id",))
    versions, times = [], []
    for number in range(3):
        table.insert(id=number, **{"from": "here"})
        workplace.follow(table)
        versions.append(workplace.state(table).snapshot)
        times.append(datetime.now(UTC))

    # The grace period began after the second merge.
    plan = plan_cleanup(
        workplace.store, workplace.source, checkpoint=3, grace=GRACE, now=times[1] + GRACE
    )
    clean_up(workplace.store, workplace.source, plan)
    files = StoredFiles(workplace.store, workplace.source)
    assert list_manifests(files) == [3]
    assert len([path for path in plan.removals if path.path.endswith(".parquet")]) == 2

    restore(workplace, table, versions[1])
    table.update(1, **{"from": "there"})
    workplace.follow(table)

    restore(workplace, table, versions[0])
    table.update(0, **{"from": "there"})
    source.commit()
    assert "not staged any more: reload it (manifest=2)" in workplace.held().reason
    take_snapshot(table)
    workplace.follow(table)


def restore(workplace: Workplace, table: Table, version: int | None) -> None:
    if workplace.format == "delta":
        workplace.spark.sql(f"RESTORE {workplace.target(table)} TO VERSION AS OF {version}")
    else:
        name = workplace.target(table)
        workplace.spark.sql(
            f"CALL lake.system.set_current_snapshot(table => '{name}', snapshot_id => {version})"
        )
