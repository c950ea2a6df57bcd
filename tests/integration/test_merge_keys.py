"""Keys that no lake type holds: from a real server, no row is matched by another value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.changes import InvalidText, Policies, ZeroDates

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.pipeline import Pipeline

# Two zero dates, which NULL would make one.
DAYS = "INSERT INTO {} VALUES ('0000-00-00', 1), ('2026-11-00', 2), ('2026-11-21', 3)"
BEGIN = (
    "SET SESSION sql_mode = ''",
    "CREATE TABLE days (day DATE PRIMARY KEY, n INT)",
    "CREATE TABLE moments (id INT, at TIMESTAMP(3) NOT NULL, n INT, PRIMARY KEY (id, at))",
    "CREATE TABLE words (w VARCHAR(9) CHARACTER SET ucs2 PRIMARY KEY, n INT)",
    "CREATE TABLE valid (day DATE PRIMARY KEY, also DATE)",
    "CREATE TABLE later (day DATE PRIMARY KEY, n INT)",
    DAYS.format("days"),
    "INSERT INTO moments VALUES (1, '0000-00-00', 1), (2, '2026-11-21 01:02:03.004', 2)",
    # Halves of surrogate pairs.
    "INSERT INTO words VALUES (x'0061D800', 1), (x'0061D801', 2), ('a', 3)",
    "INSERT INTO valid VALUES ('2026-11-21', '0000-00-00'), ('2026-11-22', NULL)",
    "INSERT INTO later VALUES ('2026-11-21', 1), ('2026-11-22', 2)",
)
AGAIN = (
    "SET SESSION sql_mode = ''",
    "UPDATE days SET n = n + 10",
    "UPDATE moments SET n = n + 10",
    "UPDATE words SET n = n + 10",
    "UPDATE valid SET also = '2026-00-00'",
    "UPDATE later SET day = '0000-00-00' WHERE n = 1",
    "DELETE FROM later WHERE day = '0000-00-00'",
)


@pytest.mark.parametrize(
    ("kind", "format_"),
    [("mysql97", "iceberg"), pytest.param("mariadb118", "delta", marks=pytest.mark.slow)],
)
def test_a_key_that_no_lake_type_holds_makes_its_table_stale(
    create_pipeline: Callable[..., Pipeline], kind: str, format_: str
) -> None:
    policies = Policies(invalid_text=InvalidText.REPLACE)
    pipeline = create_pipeline(kind, format_, policies=policies)
    database, workplace = pipeline.database, pipeline.workplace
    stale = {"days": "day", "moments": "at", "words": "w"}
    for statements, columns in ((BEGIN, stale), (AGAIN, stale | {"later": "day"})):
        start = pipeline.at
        database.execute(*statements)

        pipeline.capture()
        reasons = pipeline.merge()

        assert reasons.keys() == columns.keys(), reasons
        for table, column in columns.items():
            assert f"in the key column {column} are zero dates or invalid" in reasons[table]
            assert "reload the table" in reasons[table]
        last = columns.keys() - {"days", "moments", "words"} or columns
        assert all(f"(position={start})" in reasons[table] for table in last)
        # Nothing failed, and the next merge has nothing to do.
        report = workplace.merge()
        assert {each.table.partition(".")[2]: each.status for each in report.tables} == (
            dict.fromkeys(columns, "stale")
        )
        assert pipeline.differences(but=columns) == []
    later = workplace.spark.table(workplace.lake.target(database.name, "later"))
    assert sorted(later.toArrow().to_pydict()["n"]) == [1, 2]


def test_as_text_and_bytes_they_are_keys_like_others(
    create_pipeline: Callable[..., Pipeline],
) -> None:
    policies = Policies(ZeroDates.TEXT, InvalidText.BINARY)
    pipeline = create_pipeline("mysql97", "iceberg", policies=policies)
    database, workplace = pipeline.database, pipeline.workplace
    for statements in (BEGIN, AGAIN):
        database.execute(*statements)
        pipeline.capture()
        assert pipeline.merge() == {}

    for table in ("days", "moments", "words", "later"):
        target = workplace.lake.target(database.name, table)
        lake = workplace.spark.table(target).toArrow().to_pydict()
        assert sorted(lake["n"]) == [
            n for (n,) in database.query(f"SELECT n FROM {table} ORDER BY n")
        ]
