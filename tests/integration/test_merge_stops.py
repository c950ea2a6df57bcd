"""A table that cannot be followed, and is later again: killed at any step, and dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.spark.merge import run as merge_run
from airflow_provider_binlog.spark.target.state import Mark
from tests.support.killed_writes import Killed
from tests.unit.spark.staged_changes import BIGINT, INT, TEXT, ColumnType
from tests.unit.spark.workplace import in_either_format, sorted_rows

if TYPE_CHECKING:
    from tests.unit.spark.workplace import Workplace


def kill(workplace: Workplace, owner: Any, step: str, *, after: bool) -> None:
    """Merge until a step, and kill the merge before or after it."""
    run = getattr(owner, step)

    def die(*arguments: Any, **options: Any) -> Any:
        if after:
            run(*arguments, **options)
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, step, die)
        with pytest.raises(Killed):
            workplace.try_merge()


@in_either_format
@pytest.mark.fault("merge-killed", lakes="delta iceberg", stores="file")
def test_a_merge_killed_at_a_stop_and_at_a_restart_is_repeated(workplace: Workplace) -> None:
    source = workplace.new_source()
    table = source.create(workplace.database, "t", {"id": INT, "note": TEXT}, ("id",))
    other = source.create(workplace.database, "other", {"id": INT}, ("id",))
    table.insert(id=1, note="one")
    other.insert(id=1)
    source.commit()
    workplace.merge()
    table.insert(id=2, note="two")
    before = sorted_rows(table.values)
    table.rewrite("dropped a partition")
    table.insert(id=3, note="three")
    other.insert(id=2)
    source.commit()
    lake = type(workplace.lake)

    # Once what is before the stop is committed, and before and after the lake table says why.
    kill(workplace, lake, "merge", after=True)
    for after in (False, True):
        kill(workplace, merge_run, "_note_held", after=after)
    held = workplace.held()

    assert "dropped a partition" in held.reason
    assert sorted_rows(workplace.found(table)) == before
    assert workplace.state(table).applied == Mark(1, 1)
    assert workplace.hold(table).reason == held.reason
    workplace.check(other)

    for restart in ("truncate", "drop") if workplace.format == "iceberg" else ("drop",):
        getattr(table, restart)()
        table.create_again()
        table.insert(id=9, note=restart)
        source.commit()
        rows = sorted_rows(workplace.found(table))
        kill(workplace, lake, "overwrite", after=False)
        # Until the new rows are committed, it is as stale as it was.
        assert sorted_rows(workplace.found(table)) == rows
        assert workplace.state(table).hold is not None
        kill(workplace, lake, "overwrite", after=True)
        workplace.merge()

        workplace.check(table, other)
        assert workplace.state(table).hold is None
        if restart == "truncate":
            table.rewrite("dropped a partition")
            source.commit()
            workplace.held()


def test_a_stale_table_that_is_dropped_is_reported_for_the_last_time(
    quick_workplace: Workplace,
) -> None:
    source = quick_workplace.new_source()
    table = source.create(quick_workplace.database, "t", {"id": INT}, ("id",))
    lost = source.create(quick_workplace.database, "lost", {"id": INT}, ("id",))
    other = source.create(quick_workplace.database, "other", {"id": INT}, ("id",))
    for each in (table, lost, other):
        each.insert(id=1)
    source.commit()
    quick_workplace.merge()
    quick_workplace.spark.sql(f"DROP TABLE {quick_workplace.target(lost)}")
    for each in (table, lost):
        each.rewrite("dropped a partition")
    source.commit()
    assert len(quick_workplace.merge().held) == 2
    kept = quick_workplace.found(table)
    table.drop()
    lost.drop()
    other.insert(id=2)
    source.commit()

    report = quick_workplace.merge()

    assert [each.status for each in report.held] == ["loading", "stale"]
    assert all("there is nothing to reload" in each.reason for each in report.held)
    assert quick_workplace.merge().held == []
    assert quick_workplace.found(table) == kept
    table.create_again()
    table.insert(id=5)
    source.commit()
    assert quick_workplace.merge().held == []
    quick_workplace.check(table, other)


@pytest.mark.parametrize(
    ("types", "key", "says"),
    [
        ({"id": INT, "n": TEXT}, None, "n was bigint in the lake, and is string now"),
        ({"id": INT, "n": BIGINT}, (), "primary key was dropped"),
    ],
    ids=["other values", "no key"],
)
def test_what_the_lake_cannot_follow_is_a_stop(
    quick_workplace: Workplace,
    types: dict[str, ColumnType],
    key: tuple[str, ...] | None,
    says: str,
) -> None:
    source = quick_workplace.new_source()
    table = source.create(quick_workplace.database, "t", {"id": INT, "n": BIGINT}, ("id",))
    other = source.create(quick_workplace.database, "other", {"id": INT}, ("id",))
    table.insert(id=1, n=1)
    source.commit()
    quick_workplace.merge()
    table.update(1, n=2)
    before = table.values
    table.alter("...", types, key=key)
    table.insert(id=3, n="3" if key is None else 3)
    other.insert(id=1)
    source.commit()

    held = quick_workplace.held()

    assert says in held.reason
    assert held.table == f"{quick_workplace.database}.t"
    assert quick_workplace.found(table) == before
    assert quick_workplace.state(table).applied == Mark(1, 1)
    quick_workplace.check(other)
    other.insert(id=2)
    table.insert(id=4)
    source.commit()
    assert quick_workplace.held().reason == held.reason
    quick_workplace.check(other)
    assert quick_workplace.found(table) == before


def test_rows_that_a_statement_rewrote_make_a_table_stale(quick_workplace: Workplace) -> None:
    source = quick_workplace.new_source()
    table = source.create(quick_workplace.database, "t", {"id": INT, "n": BIGINT}, ("id",))
    empty = source.create(quick_workplace.database, "empty", {"id": INT, "n": BIGINT}, ("id",))
    empty.rewrite("shortened the values", "n")
    table.insert(id=1, n=1)
    source.commit()
    quick_workplace.merge()
    table.rewrite("dropped a partition")
    empty.insert(id=1)
    source.commit()

    held = quick_workplace.held()

    assert "because the statement dropped a partition (ALTER TABLE t ...)" in held.reason
    quick_workplace.check(empty)
