"""DDL that was once misread: from a real server to the lake it is right, or refused by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.support.pipeline import Pipeline
from tests.unit.spark.session import shared_session
from tests.unit.spark.workplace import local_workplace

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fixtures.mysql import Database
    from tests.fixtures.spark import SparkEnvironment

pytestmark = [
    pytest.mark.server,
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
    ),
]

FOLLOWED = ""
PARTITIONED = (
    "PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (2), PARTITION q VALUES LESS THAN (9))"
)


@dataclass(frozen=True)
class Case:
    """One table, and what is done to it between its rows.

    Attributes:
        columns: Its columns besides the key `id`.
        before: The values in two rows from before.
        ddl: Statements; `{}` is the table's name.
        after: The values in the row after.
        refused: Part of the refusal; empty if the lake follows.
    """

    columns: str
    before: tuple[str, str]
    ddl: str
    after: str
    refused: str
    options: str = ""


NO_ESCAPES = "SET sql_mode = 'NO_BACKSLASH_ESCAPES'"
ESCAPES = "SET sql_mode = DEFAULT"
REWRITES = "changed without row events"

CASES = {
    "backslash_in_comment": Case(
        "a INT, n INT",
        ("1, 2", "3, 4"),
        f"{NO_ESCAPES}; ALTER TABLE {{}} MODIFY a INT COMMENT 'a\\', DROP COLUMN n, "
        f"ADD COLUMN n INT COMMENT 'b'; {ESCAPES}",
        "5, 6",
        FOLLOWED,
    ),
    "drop_partition": Case(
        "n INT",
        ("1", "2"),
        "ALTER TABLE {} DROP /*x*/ PARTITION p",
        "3",
        REWRITES,
        PARTITIONED,
    ),
    "drop_partition_in_a_comment_that_runs": Case(
        "n INT",
        ("1", "2"),
        "ALTER TABLE {} DROP /*!50100 PARTITION */ p",
        "3",
        REWRITES,
        PARTITIONED,
    ),
    "truncate_partition": Case(
        "n INT",
        ("1", "2"),
        "ALTER TABLE {} TRUNCATE -- x\n PARTITION p",
        "3",
        REWRITES,
        PARTITIONED,
    ),
    "set_default_beside_add": Case(
        "n INT",
        ("1", "2"),
        "ALTER TABLE {} ALTER n SET DEFAULT 3, ADD COLUMN a INT",
        "3, 4",
        FOLLOWED,
    ),
    "add_default": Case(
        "n INT",
        ("1", "2"),
        "ALTER TABLE {} ADD a INT NOT NULL DEFAULT 7, ADD b VARCHAR(9) DEFAULT 'it''s'",
        "3, 4, 'x'",
        FOLLOWED,
    ),
    "wider_binary": Case(
        "b BINARY(4)",
        ("'ab'", "'cd'"),
        "ALTER TABLE {} MODIFY b BINARY(8)",
        "'ef'",
        REWRITES,
    ),
    "wider_bit": Case(
        "b BIT(8)",
        ("b'101'", "b'1'"),
        "ALTER TABLE {} MODIFY b BIT(16)",
        "b'11'",
        REWRITES,
    ),
    "text_to_json": Case(
        "j TEXT",
        ("""'{"b":1,"a":2}'""", "'[1,  2]'"),
        "ALTER TABLE {} MODIFY j JSON",
        "'[3]'",
        REWRITES,
    ),
    "smaller_decimal": Case(
        "d DECIMAL(65,30)",
        ("1.123456789012345678901234567890", "2"),
        "ALTER TABLE {} MODIFY d DECIMAL(60,20)",
        "3.5",
        REWRITES,
    ),
    "datetime_without_fraction": Case(
        "at DATETIME(6)",
        ("'2026-11-21 01:02:03.999999'", "NULL"),
        "ALTER TABLE {} MODIFY at DATETIME",
        "'2026-11-21 01:02:03'",
        REWRITES,
    ),
    "enum_of_other_values": Case(
        "e ENUM('a', 'b')",
        ("'a'", "'b'"),
        "ALTER TABLE {} MODIFY e ENUM('b', 'a', 'c')",
        "'c'",
        REWRITES,
    ),
    "another_expression": Case(
        "n INT, g INT AS (n + 1) STORED",
        ("1, DEFAULT", "2, DEFAULT"),
        "ALTER TABLE {} MODIFY g INT AS (n * 10) STORED",
        "3, DEFAULT",
        REWRITES,
    ),
}
MARIADB = {
    "ignore_unique": Case(
        "n INT",
        ("1", "1"),
        "ALTER IGNORE TABLE {} ADD UNIQUE (n)",
        "2",
        REWRITES,
    ),
    "inet": Case(
        "a INET4",
        ("'10.0.0.1'", "NULL"),
        "ALTER TABLE {} MODIFY a INET6",
        "'::1'",
        REWRITES,
    ),
    "set_default_beside_add": CASES["set_default_beside_add"],
}


def begin(database: Database, cases: dict[str, Case]) -> None:
    for name, case in cases.items():
        one, other = case.before
        database.execute(
            f"CREATE TABLE {name} (id INT PRIMARY KEY, {case.columns}) {case.options}",
            f"INSERT INTO {name} VALUES (1, {one}), (2, {other})",
        )


def go_on(database: Database, cases: dict[str, Case]) -> None:
    for name, case in cases.items():
        statements = [each for each in case.ddl.format(name).split("; ") if each]
        database.execute(*statements, f"INSERT INTO {name} VALUES (3, {case.after})")


def check(pipeline: Pipeline, cases: dict[str, Case]) -> None:
    pipeline.capture()
    errors = pipeline.merge()

    refused = {name: case.refused for name, case in cases.items() if case.refused}
    assert errors.keys() == refused.keys(), errors
    for name, says in refused.items():
        assert says in errors[name]
        assert "position=" in errors[name]
    assert pipeline.differences(but=refused) == []


@pytest.mark.parametrize("merged", [True, False], ids=["rows in the lake", "rows in the range"])
def test_each_statement_is_right_or_refused(
    merged: bool,
    database: Database,
    spark_environment: SparkEnvironment,
    tmp_path: Path,
) -> None:
    is_mysql = database.server.name == "mysql97"
    cases = CASES if is_mysql else dict(MARIADB)
    if database.server.name == "mariadb1011":
        # It refuses the statement.
        del cases["inet"]
    workplace = local_workplace(shared_session(spark_environment), "iceberg", tmp_path)
    pipeline = Pipeline(database, workplace)
    begin(database, cases)
    if merged:
        pipeline.run()

    go_on(database, cases)

    check(pipeline, cases)
