"""A lake table whose columns somebody changed: named, and repaired as the error says."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from airflow_provider_binlog.spark.job.session import iceberg_conf
from tests.fixtures.spark import SparkEnvironment
from tests.unit.spark.history import Source, Table
from tests.unit.spark.made_snapshots import take_snapshot
from tests.unit.spark.session import add_catalog, shared_session
from tests.unit.spark.staged_changes import INT, TEXT
from tests.unit.spark.workplace import Workplace, local_workplace

pytestmark = pytest.mark.spark


@pytest.fixture
def workplace(format_: str, spark_environment: SparkEnvironment, tmp_path: Path) -> Workplace:
    """A lake of the format that the cell is of."""
    return local_workplace(shared_session(spark_environment), format_, tmp_path)


@pytest.fixture
def source(workplace: Workplace) -> Source:
    return workplace.new_source()


@pytest.fixture
def table(workplace: Workplace, source: Source) -> Table:
    """A table of three rows, merged, with another change that is not."""
    return a_table(workplace, source)


def a_table(workplace: Workplace, source: Source) -> Table:
    table = source.create(workplace.database, "t", {"id": INT, "note": TEXT}, ("id",))
    for id_ in (1, 2, 3):
        table.insert(id=id_, note="one")
    source.commit()
    workplace.merge()
    table.update(1, note="two")
    source.commit()
    return table


@pytest.mark.fault("lake-altered", lakes="delta iceberg", stores="file")
def test_a_column_that_was_added_by_hand(format_: str, workplace: Workplace, table: Table) -> None:
    target = workplace.target(table)
    workplace.spark.sql(f"ALTER TABLE {target} ADD COLUMN extra INT")

    failed = workplace.failure()

    assert not failed.retryable
    assert "columns that the table does not have: drop them there" in str(failed.error)
    workplace.spark.sql(f"ALTER TABLE {target} DROP COLUMN extra")
    workplace.merge()
    workplace.check(table)


@pytest.mark.fault("lake-altered", lakes="delta iceberg", stores="file")
def test_a_column_that_was_renamed_by_hand_is_renamed_back(
    format_: str, workplace: Workplace, table: Table
) -> None:
    workplace.spark.sql(f"ALTER TABLE {workplace.target(table)} RENAME COLUMN note TO remark")

    workplace.merge()

    workplace.check(table)


@pytest.mark.fault("lake-altered", lakes="delta iceberg", stores="file")
@pytest.mark.parametrize(
    "again", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["dropped", "added again"]
)
def test_a_column_that_was_dropped_by_hand_needs_a_reload(
    format_: str, again: bool, workplace: Workplace, source: Source, table: Table
) -> None:
    target = workplace.target(table)
    workplace.spark.sql(f"ALTER TABLE {target} DROP COLUMN note")
    if again:
        workplace.spark.sql(f"ALTER TABLE {target} ADD COLUMN note STRING")

    held = workplace.held()

    assert held.status == "stale"
    assert "the lake table lost the values of column note: it was dropped" in held.reason
    take_snapshot(table)
    table.update(2, note="three")
    workplace.follow(table)


@pytest.mark.fault("lake-altered", lakes="delta iceberg", stores="file")
def test_rows_that_were_written_by_hand_are_named_until_a_reload(
    format_: str, workplace: Workplace, source: Source, table: Table
) -> None:
    target, name = workplace.target(table), ".".join(table.name)
    workplace.spark.sql(f"DELETE FROM {target} WHERE id = 3")

    first = workplace.merge()
    # It is the newest commit no more, and nothing of the table is logged.
    idle = workplace.merge()
    source.create(workplace.database, "other", {"id": INT}, ("id",)).insert(id=1)
    source.commit()
    others = workplace.merge()

    for report in (first, idle, others):
        (suspect,) = [each for each in report.tables if each.table == name]
        assert "(delete by " in suspect.suspect.lower()
        assert "until it is reloaded" in suspect.suspect
        assert (suspect.hold, suspect.error) == (None, None)
        assert name not in report.versions
    take_snapshot(table)
    table.update(2, note="three")
    workplace.follow(table)
    assert [each.suspect for each in workplace.merge().tables] == []


@pytest.mark.slow
@pytest.mark.fault("lake-full", lakes="delta iceberg", stores="file")
def test_a_full_disk(
    format_: str, small_disk: Path, spark_environment: SparkEnvironment, tmp_path: Path
) -> None:
    (tmp_path / "lake").symlink_to(small_disk)
    spark = shared_session(spark_environment)
    workplace = local_workplace(spark, format_, tmp_path)
    workplace.catalog = "small"
    add_catalog(spark, iceberg_conf(workplace.catalog, f"file://{tmp_path}/lake"))
    source = workplace.new_source()
    table = a_table(workplace, source)
    filler = small_disk / "filler"
    with suppress(OSError):
        filler.write_bytes(bytes(5_000_000))

    failed = workplace.failure()

    assert failed.retryable
    assert "No space left on device" in str(failed.error)
    filler.unlink()
    workplace.merge()
    workplace.check(table)
