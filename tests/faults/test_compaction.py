"""A lake table that somebody compacts between what a merge reads of it and the merge's commit."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F  # noqa: N812  PySpark's own habit.

from airflow_provider_binlog.spark.target import sql as merge_sql
from tests.fixtures.spark import SparkEnvironment
from tests.unit.spark.history import Table
from tests.unit.spark.made_snapshots import take_snapshot
from tests.unit.spark.session import shared_session
from tests.unit.spark.staged_changes import INT, TEXT
from tests.unit.spark.workplace import Workplace, local_workplace

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

_SECONDS_MAX = 120.0


class Halt:
    """Halts the statement that commits a table's rows, once it has read the table's version.

    The rows that it commits are filtered by a function that waits for a file.
    """

    def __init__(self, workplace: Workplace, folder: Path) -> None:
        self._lake = type(workplace.lake)
        self._reached, self._opened = folder / "reached", folder / "opened"

    def run(self, work: Callable[[], Any], meanwhile: Callable[[], object]) -> Any:
        """Run a merge in another thread; call `meanwhile` while its statement is halted."""
        reached, opened = str(self._reached), str(self._opened)

        def wait(_: Any) -> bool:
            Path(reached).touch()
            deadline = time.monotonic() + _SECONDS_MAX
            while not Path(opened).exists() and time.monotonic() < deadline:
                time.sleep(0.02)
            return True

        passes = F.udf(wait, "boolean", useArrow=False)

        def halted(call: Callable[..., Any]) -> Callable[..., Any]:
            def commit(lake: Any, session: Any, *rest: Any) -> Any:
                rows = session.table(merge_sql.CHANGES)
                rows.where(passes(rows[0])).createOrReplaceTempView(merge_sql.CHANGES)
                return call(lake, session, *rest)

            return commit

        with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as pool:
            for name in ("merge", "overwrite"):
                patch.setattr(self._lake, name, halted(getattr(self._lake, name)))
            merging = pool.submit(work)
            try:
                while not self._reached.exists():
                    assert not merging.done(), merging.result()
                    time.sleep(0.02)
                meanwhile()
            finally:
                self._opened.touch()
            ended = merging.result()
        self._reached.unlink()
        self._opened.unlink()
        return ended


def compact(workplace: Workplace, table: Table) -> None:
    """Write the rows of a lake table into other files, as a team's nightly job does."""
    before, spark = workplace.state(table).snapshot, workplace.spark.newSession()
    target = workplace.target(table)
    if workplace.format == "delta":
        spark.sql(f"OPTIMIZE {target}")
    else:
        name = target.replace("`", "").partition(".")[2]
        spark.sql(
            f"CALL {workplace.catalog}.system.rewrite_data_files(table => '{name}', "
            "options => map('rewrite-all', 'true'))"
        )
    assert workplace.state(table).snapshot != before


@pytest.mark.fault("compaction", lakes="delta iceberg", stores="file")
@pytest.mark.parametrize("rows", ["changed", "appended", "reloaded"])
def test_a_table_that_is_compacted_before_the_commit(
    format_: str, rows: str, spark_environment: SparkEnvironment, tmp_path: Path
) -> None:
    workplace = local_workplace(shared_session(spark_environment), format_, tmp_path)
    source = workplace.new_source()
    key = () if rows == "appended" else ("id",)
    table = source.create(workplace.database, "t", {"id": INT, "note": TEXT}, key)
    for id_ in range(2):
        # Each in a file of its own.
        table.insert(id=id_, note="one")
        source.commit()
        workplace.merge()
    table.insert(id=9, note="new")
    if rows != "appended":
        table.update(1, note="two")
        table.delete(0)
    if rows == "reloaded":
        take_snapshot(table)
    source.commit()

    report = Halt(workplace, tmp_path).run(workplace.try_merge, lambda: compact(workplace, table))

    (merged,) = report.tables
    if report.failed:
        assert merged.retryable, merged.error
        assert "another writer committed to the target first" in str(merged.error)
    workplace.merge()
    workplace.check_rows(table)
    assert [each.suspect for each in workplace.merge().tables] == []
    table.insert(id=10, note="last")
    source.commit()
    workplace.merge()
    workplace.check_rows(table)
