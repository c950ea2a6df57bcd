"""Late statements: the ALTER TABLEs behind a table's last row, from manifests read backwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_binlog.spark.plan.late_statements import read_late
from tests.unit.spark.plans import NAME, manifest, statement

if TYPE_CHECKING:
    from airflow_provider_binlog.manifest import Manifest, Statement
    from airflow_provider_binlog.spark.plan.statements import TableName

OTHER = ("shop", "other")


def late(*manifests: Manifest, name: TableName = NAME) -> list[int]:
    """Return the offsets of the statements."""
    return [each.offset for each in read_late(name, reversed(manifests)).alterations]


def test_only_what_stands_behind_the_last_row_counts() -> None:
    first = manifest(4, [(10, 20), (25, 40)], tuple(alters(15, 30, 40, 41)))
    second = manifest(5, [], tuple(alters(7, 50)))

    assert late(first) == [41]
    assert late(manifest(3, [], tuple(alters(5))), first, second) == [41, 7, 50]


def test_no_more_manifests_are_read_than_needed() -> None:
    unread = iter([manifest(5, [], tuple(alters(9))), manifest(4, [(10, 20)]), manifest(3)])

    read_late(NAME, unread)

    assert [each.sequence for each in unread] == [3]


def test_other_tables_do_not_count() -> None:
    of_other = statement(30, "ALTER TABLE", "", OTHER)

    assert late(manifest(4, [(10, 20)]), manifest(5, [], (of_other, *alters(40)))) == [40]


def test_a_table_that_was_empty_since_has_no_rows_from_before() -> None:
    first = manifest(4, [(10, 20)])

    for kind in ("TRUNCATE TABLE", "DROP TABLE", "CREATE OR REPLACE TABLE", "CREATE TABLE"):
        between = statement(35, kind)
        assert late(first, manifest(5, [], (*alters(30), between, *alters(40)))) == []
    perhaps = statement(35, "CREATE TABLE", "CREATE TABLE IF NOT EXISTS orders (id INT)")
    assert late(first, manifest(5, [], (*alters(30), perhaps, *alters(40)))) == [30, 40]


def test_a_table_is_followed_to_its_former_name() -> None:
    first = manifest(4, [(10, 20)], tuple(alters(15, 30)))
    renamed = statement(5, "RENAME TABLE", "RENAME TABLE orders TO other", NAME, OTHER)
    second = manifest(5, [], (renamed, statement(7, "ALTER TABLE", "", OTHER), *alters(9)))

    assert late(first, second, name=OTHER) == [30, 7]
    assert late(first, second, name=NAME) == []


def alters(*rows: int) -> list[Statement]:
    return [statement(row, "ALTER TABLE") for row in rows]
