"""Histories: every version of a row, in lake tables that Spark writes."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.spark.collapse import source_rows
from airflow_provider_binlog.table_options import TableOptions, TableRules
from tests.integration.test_merge_deletes import (
    INT_NULL,
    begin,
    change,
    make_table,
    merge_as_expected,
    rules,
    truncate_and_alter,
)
from tests.integration.test_merge_kills import merge_killed_later_each_time
from tests.support.killed_writes import Writes
from tests.support.plain_lake import expected_rows, found_rows
from tests.unit.spark.history import RowImage
from tests.unit.spark.made_snapshots import take_snapshot
from tests.unit.spark.staged_changes import TEXT
from tests.unit.spark.workplace import Workplace, in_either_format, sorted_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.pipeline import Pipeline


HISTORY = TableOptions(mode="history")
PRICES = (
    "CREATE TABLE prices (id INT, `from` VARCHAR(9), price DOUBLE, note TEXT, PRIMARY KEY (id))",
    "INSERT INTO prices VALUES (1, 'a', 1, NULL), (2, 'b', 2, 'two'), (3, NULL, 3, 'three')",
    (
        "BEGIN; UPDATE prices SET price = 5 WHERE id = 1; UPDATE prices SET price = 6 WHERE id = 1;"
        " DELETE FROM prices WHERE id = 2; INSERT INTO prices VALUES (2, 'b', 2, 'again');"
        " INSERT INTO prices VALUES (8, 'c', 1, 'unseen'); DELETE FROM prices WHERE id = 8; COMMIT"
    ),
    "UPDATE prices SET id = 30 WHERE id = 3",
    "DELETE FROM prices WHERE id = 1",
    None,
    "INSERT INTO prices VALUES (1, 'a', -0.0, NULL)",
    "SET SESSION binlog_row_image = 'MINIMAL'; UPDATE prices SET note = 'minimal' WHERE id = 2",
    "UPDATE prices SET price = NULL WHERE id IN (1, 30)",
    "SET SESSION binlog_row_image = 'FULL'; UPDATE prices SET price = 4 WHERE id = 30",
    None,
    "TRUNCATE TABLE prices",
    "INSERT INTO prices VALUES (2, 'b', 7, 'after'), (4, '', 4, '')",
    None,
    "ALTER TABLE prices ADD COLUMN more INT NOT NULL DEFAULT 9, RENAME COLUMN `from` TO `path`",
    "UPDATE prices SET more = 10, path = NULL WHERE id = 2",
    None,
    "DROP TABLE prices",
)


in_any_format = pytest.mark.parametrize(
    "workplace", ["delta", "iceberg", "postgresql"], indirect=True
)


@pytest.mark.parametrize(
    ("kind", "format_"),
    [
        ("mysql97", "delta"),
        pytest.param("mysql97", "iceberg", marks=pytest.mark.slow),
        pytest.param("mariadb118", "delta", marks=pytest.mark.slow),
        ("mysql97", "postgresql18"),
        pytest.param("mariadb118", "postgresql15", marks=pytest.mark.slow),
    ],
)
def test_the_table_of_any_time_is_what_select_returned_then(
    create_pipeline: Callable[..., Pipeline], kind: str, format_: str
) -> None:
    pipeline = create_pipeline(kind, format_)
    database, workplace = pipeline.database, pipeline.workplace
    options = {"table_options": rules(HISTORY)}
    states: list[tuple[str, list[dict[str, Any]]]] = []
    with closing(database.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        for statements in PRICES:
            if statements is None:
                pipeline.capture()
                workplace.merge(**options)
                check_states(workplace, database.name, states, by_time=kind == "mysql97")
                continue
            for statement in statements.split("; "):
                cursor.execute(statement)
            connection.commit()
            cursor.execute("SELECT NOW(6)")
            (now,) = cursor.fetchone()
            if statements.startswith("DROP"):
                states.append((str(now), []))
            else:
                cursor.execute("SELECT * FROM prices")
                names = [column[0] for column in cursor.description]
                rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
                states.append((str(now), rows))
    pipeline.capture()
    workplace.merge(**options)
    check_states(workplace, database.name, states, by_time=kind == "mysql97")


def is_current(row: dict[str, Any], at: datetime | None) -> bool:
    """Whether a version held at a moment, or holds now."""
    start, end = (
        time if time is None else time.replace(tzinfo=UTC)
        for time in (row["__START_AT"], row["__END_AT"])
    )
    assert start is not None
    return end is None if at is None else start <= at and (end is None or end > at)


def without_times(row: dict[str, Any]) -> dict[str, Any]:
    """Return what a version has of the source's row."""
    return {name: row[name] for name in row if name not in ("__START_AT", "__END_AT")}


def check_states(
    workplace: Workplace,
    database: str,
    states: list[tuple[str, list[dict[str, Any]]]],
    *,
    by_time: bool,
) -> None:
    """Compare the versions of each moment, and their order, with what SELECT returned."""
    columns = workplace.read(database, "prices")
    table = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    names = {"from": "path"} if "path" in columns else {}
    more = {"more": 9} if names else {}

    def named(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [more | {names.get(name, name): row[name] for name in row} for row in rows]

    # A server of whole seconds has several states in one: only the last is that of its time.
    for now, rows in states if by_time else states[-1:]:
        at = datetime.fromisoformat(f"{now}+00:00")
        held = [row for row in table if is_current(row, at if by_time else None)]
        assert sorted_rows([without_times(row) for row in held]) == sorted_rows(named(rows))
    wanted: dict[int, list[Any]] = {}
    before: dict[int, Any] = {}
    for _, rows in states:
        by_id = {row["id"]: row for row in named(rows)}
        for id_, row in by_id.items():
            if before.get(id_) != row:
                wanted.setdefault(id_, []).append(row)
        before = by_id
    versions: dict[int, list[Any]] = {}
    for found in sorted(table, key=lambda row: (row["id"], row["__START_AT"])):
        versions.setdefault(found["id"], []).append(without_times(found))
    assert {id_: [sorted_rows([row]) for row in rows] for id_, rows in versions.items()} == {
        id_: [sorted_rows([row]) for row in rows] for id_, rows in wanted.items()
    }


@in_any_format
@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [HISTORY, TableOptions(mode="history", track_columns=("note",), metadata=True)],
    ids=["all", "tracked"],
)
def test_versions_are_as_the_plain_model_says(
    workplace: Workplace, options: TableOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    if options.metadata:
        # As many changes are collapsed on the executors.
        monkeypatch.setattr(source_rows, "_FEW_ROWS", 0)
    table = make_table(workplace)
    source = table.source
    merge_as_expected(workplace, table, options)

    change(table)
    begin(source, 1)
    table.insert(id=2, n=5, note="five")
    table.update(2, note="in the same transaction")
    truncate_and_alter(table)
    begin(source, 1)
    table.insert(id=5, n=5, note="with more", more=8)
    source.row_image = RowImage.MINIMAL
    begin(source, 0)
    table.update(4, n=5)
    begin(source, -9)
    table.update(4, note="minimal")
    (report,) = merge_as_expected(workplace, table, options).tables
    assert report.applied_after == workplace.state(table).applied

    source.row_image = RowImage.FULL
    begin(source, 1)
    table.drop()
    merge_as_expected(workplace, table, options)
    begin(source, 1)
    table.create_again()
    begin(source, 1)
    table.insert(id=5, n=None, note="another table", more=None)
    merge_as_expected(workplace, table, options)


def current(workplace: Workplace, table: Any) -> list[dict[str, Any]]:
    """Return the rows that the lake table says the table has."""
    rows = [row for row in workplace.found(table) if row["__END_AT"] is None]
    return [{name: row[name] for name in table.types} for row in rows]


@in_any_format
@pytest.mark.slow
def test_a_reload_closes_and_opens_what_differs(workplace: Workplace) -> None:
    table = make_table(workplace)
    source, options = table.source, {"table_options": rules(HISTORY)}
    source.commit()
    hard = rules(TableOptions())
    workplace.merge(table_options=hard)
    begin(source, 1)
    table.update(1, n=11)
    source.commit()
    held = workplace.held(**options)
    assert "its options say mode='history'" in held.reason
    take_snapshot(table)
    source.commit()
    workplace.merge(**options)
    assert len(workplace.found(table)) == len(table.rows)
    begin(source, 60 * 60 * 24 * 900)
    table.delete(1)
    table.update(2, n=22)
    source.commit()
    workplace.merge(**options)
    before = sorted_rows(workplace.found(table))
    del table.rows[3]
    table.rewrite("dropped a partition")
    source.commit()
    assert workplace.held(**options).status == "stale"
    assert sorted_rows(workplace.found(table)) == before

    take_snapshot(table)
    begin(source, 5)
    table.update(4, n=44)
    table.insert(id=8, n=8, note="new")
    source.commit()
    workplace.merge(**options)

    assert sorted_rows(current(workplace, table)) == sorted_rows(table.values)
    versions: dict[int, list[Any]] = {}
    for row in sorted(workplace.found(table), key=lambda row: row["__START_AT"]):
        versions.setdefault(row["id"], []).append(row)
    assert {id_: len(rows) for id_, rows in versions.items()} == {1: 1, 2: 2, 3: 1, 4: 2, 8: 1}
    ended = [rows[-1]["__END_AT"] is not None for rows in versions.values()]
    assert dict(zip(versions, ended, strict=True)) == {
        1: True,
        2: False,
        3: True,
        4: False,
        8: False,
    }
    # From here on there is what only the lake has.
    take_snapshot(table)
    source.commit()
    assert "drop the lake table" in workplace.held(table_options=hard).reason


@in_any_format
@pytest.mark.slow
def test_a_key_that_is_null_has_versions_too(workplace: Workplace) -> None:
    table = workplace.new_source().create(workplace.database, "v", {"id": INT_NULL, "note": TEXT})
    options = {"table_options": rules(TableOptions(mode="history", key=("id",)))}
    for id_, note in ((None, "nobody"), (1, "one"), (2, "two")):
        begin(table.source, 1)
        table.insert(id=id_, note=note)
    table.source.commit()
    workplace.merge(**options)
    begin(table.source, 1)
    table.update(1, note="changed")
    begin(table.source, 1)
    table.update(2, note="two")
    begin(table.source, 1)
    table.delete(3)
    table.source.commit()
    workplace.merge(**options)

    found = workplace.found(table)
    versions = [(row["id"], row["note"], row["__END_AT"] is None) for row in found]
    assert sorted(versions, key=repr) == [
        (1, "one", False),
        (1, "two", True),
        (2, "two", False),
        (None, "changed", True),
        (None, "nobody", False),
    ]


def test_what_cannot_be_a_history_is_refused_before_anything_is_written(
    quick_workplace: Workplace,
) -> None:
    table = make_table(quick_workplace)
    table.source.commit()
    for options, says in (
        ({"deletes": "soft"}, "set deletes='hard'"),
        ({"track_columns": ["price"]}, "columns=price"),
        ({"history_columns": ["N", "until"]}, "other history_columns"),
    ):
        wrong = TableRules.read({"*": {"mode": "history"} | options})
        failed = quick_workplace.failure(table_options=wrong)
        assert says in str(failed.error)
    assert quick_workplace.find_state(*table.name) is None


@pytest.mark.slow
def test_a_merge_that_is_killed_one_write_later_each_time(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(workplace)
    source = table.source
    source.commit()
    workplace.merge(table_options=rules(HISTORY))
    change(table)
    truncate_and_alter(table)
    begin(source, 1)
    table.update(4, n=0)
    source.commit()

    options = {"table_options": rules(HISTORY)}
    report, more = merge_killed_later_each_time(workplace, monkeypatch, Writes(), **options)

    assert not report.failed
    assert more > 3
    assert found_rows(workplace, table) == expected_rows(table, HISTORY)


@in_any_format
@pytest.mark.slow  # the rule is tested in test_table_merge.py
@pytest.mark.parametrize("mode", ["history", "current"])
def test_a_table_that_is_renamed_into_other_options_takes_no_rows_of_another_mode_along(
    workplace: Workplace, mode: str
) -> None:
    table = make_table(workplace)
    other = "history" if mode == "current" else "current"
    chosen = {"*.v": TableOptions(mode=mode), "*.renamed": TableOptions(mode=other)}
    begin(table.source, 1)
    table.update(2, note="changed")
    table.source.commit()
    workplace.merge(table_options=TableRules(chosen))

    table.source.rename((table, "renamed"))
    for id_ in (2, 3):
        begin(table.source, 1)
        table.update(id_, note="as it is now")
        table.source.commit()
        workplace.merge(table_options=TableRules(chosen))

        rows = workplace.found(table) if mode == "history" else current(workplace, table)
        assert sorted_rows(rows) == sorted_rows(table.values)


@pytest.mark.fault("both-merges", lakes="delta iceberg", stores="file")
@in_either_format
def test_a_version_that_two_merges_at_once_opened_is_not_silent(workplace: Workplace) -> None:
    """Another merge commits more after this one has read the versions that there are."""
    table = make_table(workplace)
    source, options = table.source, {"table_options": rules(HISTORY)}
    merge_as_expected(workplace, table, HISTORY)
    change(table)
    source.commit()
    begin(source, 1)
    table.update(7, note="later")
    source.commit()
    (second,) = workplace.merge_overtaken(through=2, **options).tables

    assert not second.is_merged
    assert second.retryable or second.error is None
    if workplace.format == "delta":
        workplace.merge(**options)
        assert found_rows(workplace, table) == expected_rows(table, HISTORY)
        return
    # Iceberg checks what a commit was built on once that is done.
    assert "two merges committed to it at once" in workplace.held(**options).reason
    take_snapshot(table)
    begin(source, 5)
    table.insert(id=8, n=8, note="new")
    source.commit()
    workplace.merge(**options)
    current = [row for row in workplace.found(table) if is_current(row, None)]
    assert sorted_rows([without_times(row) for row in current]) == sorted_rows(table.values)
