"""Statements: when a table was emptied, and what cannot be followed."""

from __future__ import annotations

import pytest

from airflow_provider_binlog.errors import MergeError
from airflow_provider_binlog.manifest import Manifest
from airflow_provider_binlog.spark.plan.statements import (
    TableFate,
    fills_rows,
    read_fate,
    refuse_unseen_changes,
)
from tests.unit.spark.plans import NAME, manifest, statement


def fate(*manifests: Manifest, dropped_before: bool = False) -> TableFate:
    return read_fate(NAME, manifests, dropped_before=dropped_before)


def test_truncate_empties() -> None:
    found = fate(
        manifest(4, [(10, 20)]), manifest(5, [(10, 20)], (statement(15, "TRUNCATE TABLE"),))
    )

    assert (found.emptied_at, found.dropped) == ((5, 15), False)


def test_drop_alone_keeps_the_rows() -> None:
    found = fate(manifest(4, [(10, 20)], (statement(25, "DROP TABLE"),)))

    assert (found.emptied_at, found.dropped) == (None, True)


def test_rows_behind_a_drop_mean_a_new_table() -> None:
    found = fate(manifest(4, [(10, 20)], (statement(15, "DROP TABLE"),)))

    assert (found.emptied_at, found.dropped) == ((4, 15), False)


def test_create_behind_a_drop_means_a_new_table() -> None:
    found = fate(
        manifest(4, [(10, 20)], (statement(25, "DROP TABLE"),)),
        manifest(5, [], (statement(5, "CREATE TABLE"),)),
    )

    assert (found.emptied_at, found.dropped) == ((4, 25), False)


def test_create_alone_says_nothing() -> None:
    found = fate(manifest(4, [(10, 20)], (statement(15, "CREATE TABLE"),)))

    assert (found.emptied_at, found.dropped) == (None, False)


@pytest.mark.parametrize("kind", ["CREATE OR REPLACE TABLE", "CREATE OR"])
def test_create_or_replace_empties(kind: str) -> None:
    found = fate(manifest(4, [(10, 20)], (statement(15, kind, "CREATE OR REPLACE TABLE orders"),)))

    assert found.emptied_at == (4, 15)


def test_a_table_dropped_before_is_emptied_when_rows_come() -> None:
    assert fate(manifest(4, [(10, 20)]), dropped_before=True).emptied_at == (4, -1)
    assert fate(manifest(4), dropped_before=True).dropped


def test_the_last_drop_counts() -> None:
    found = fate(
        manifest(
            4, [(10, 20), (30, 40)], (statement(25, "DROP TABLE"), statement(45, "DROP TABLE"))
        )
    )

    assert (found.emptied_at, found.dropped) == ((4, 25), True)
    assert [each.place for each in found.erasures] == [(4, 25), (4, 45)]


def test_dropping_the_database_drops_its_tables() -> None:
    whole = statement(25, "DROP DATABASE", "DROP DATABASE shop", ("shop", ""))

    assert fate(manifest(4, [(10, 20)], (whole,))).dropped


def test_other_tables_statements_are_not_ours() -> None:
    other = statement(15, "TRUNCATE TABLE", "TRUNCATE TABLE log", ("shop", "log"))

    assert fate(manifest(4, [(10, 20)], (other,))) == TableFate(None, False, (), ())


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("ALTER TABLE", "ALTER TABLE orders RENAME TO old"),
        ("ALTER TABLE", "alter table orders drop  partition p0"),
        ("ALTER TABLE", "ALTER TABLE orders EXCHANGE PARTITION p0 WITH TABLE x"),
        ("ALTER TABLE", "ALTER TABLE orders CONVERT PARTITION p0 TO TABLE x"),
        ("ALTER TABLE", "ALTER TABLE orders CONVERT TABLE x TO PARTITION p0 VALUES LESS THAN (9)"),
        ("ALTER TABLE", "ALTER TABLE orders IMPORT TABLESPACE"),
    ],
)
def test_changes_without_row_events_are_refused(kind: str, text: str) -> None:
    with pytest.raises(MergeError, match=r"binlog\.000001:15"):
        refuse_unseen_changes(
            NAME, [manifest(4, [(10, 20)], (statement(15, kind, text),))], since=None
        )


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE orders RENAME COLUMN a TO b, RENAME INDEX x TO y",
        "ALTER TABLE orders COMMENT 'do not rename; it''s used'",
        "ALTER TABLE orders ADD COLUMN `rename` INT /* DROP PARTITION */",
        "ALTER TABLE orders REORGANIZE PARTITION p0 INTO (PARTITION p1)",
    ],
)
def test_other_alterations_are_not(text: str) -> None:
    changed = statement(15, "ALTER TABLE", text)

    refuse_unseen_changes(NAME, [manifest(4, [(10, 20)], (changed,))], since=None)


def test_what_happened_before_the_table_was_emptied_does_not_matter() -> None:
    cut = statement(15, "ALTER TABLE", "ALTER TABLE orders DROP PARTITION p0")

    refuse_unseen_changes(NAME, [manifest(4, [(10, 20)], (cut,))], since=(4, 16))


@pytest.mark.parametrize(
    ("text", "fills"),
    [
        ("ALTER TABLE orders ADD COLUMN a INT DEFAULT 7", True),
        ("ALTER TABLE orders ADD COLUMN a INT GENERATED ALWAYS AS (b) STORED", True),
        ("ALTER TABLE orders ADD COLUMN a INT AS (b) VIRTUAL", True),
        ("ALTER TABLE orders ADD COLUMN a INT NOT NULL", True),
        ("ALTER TABLE orders MODIFY a INT AS (b) STORED", True),
        ("ALTER TABLE orders ADD k INT COMMENT '\\', ADD a INT DEFAULT 7 COMMENT ''", True),
        ("ALTER TABLE orders ADD k INT COMMENT 'it\\'s', ADD a INT DEFAULT 7 COMMENT ''", True),
        ("ALTER TABLE orders MODIFY a INT NOT NULL DEFAULT 7", False),
        ("ALTER TABLE orders ADD COLUMN a INT DEFAULT NULL", False),
        ("ALTER TABLE orders ADD COLUMN a INT COMMENT 'by DEFAULT 7'", False),
    ],
)
def test_a_new_column_that_fills_old_rows(text: str, fills: bool) -> None:
    assert (fills_rows([statement(15, "ALTER TABLE", text)]) is not None) == fills
