"""DDL that was once misread: from a real server to the lake it is right, or refused by name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.mysql import Database
    from tests.support.pipeline import Pipeline

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
        ("'b'", "'b'"),
        "ALTER TABLE {} MODIFY e ENUM('b', 'c')",
        "'c'",
        REWRITES,
    ),
    "timestamp_to_datetime": Case(
        "at TIMESTAMP NULL",
        ("'2026-11-21 01:02:03'", "NULL"),
        "ALTER TABLE {} MODIFY at DATETIME",
        "'2026-11-21 01:02:03'",
        REWRITES,
    ),
    "shorter_varchar": Case(
        "a VARCHAR(9)",
        ("'abcdef'", "'b'"),
        "SET sql_mode = ''; ALTER TABLE {} MODIFY a VARCHAR(3); SET sql_mode = DEFAULT",
        "'c'",
        REWRITES,
    ),
    "null_to_not_null": Case(
        "n INT",
        ("1", "NULL"),
        "SET sql_mode = ''; ALTER TABLE {} MODIFY n INT NOT NULL; SET sql_mode = DEFAULT",
        "3",
        REWRITES,
    ),
    "dropped_key": Case(
        "n INT",
        ("1", "2"),
        "ALTER TABLE {} DROP PRIMARY KEY",
        "3",
        "the table's primary key was dropped",
    ),
    "another_expression": Case(
        "n INT, g INT AS (n + 1) STORED",
        ("1, DEFAULT", "2, DEFAULT"),
        "ALTER TABLE {} MODIFY g INT AS (n * 10) STORED",
        "3, DEFAULT",
        REWRITES,
    ),
}
EVERYWHERE = {
    "followed_names": Case(
        "n INT, a INT, b TEXT, k INT",
        ("1, 1, 'x', NULL", "2, 2, 'y', 2"),
        "ALTER TABLE {0} RENAME COLUMN n TO m; ALTER TABLE {0} CHANGE k K INT; "
        "UPDATE {0} SET a = 5 WHERE id = 1; "
        "ALTER TABLE {0} RENAME COLUMN a TO b, RENAME COLUMN b TO a; "
        "ALTER TABLE {0} MODIFY K INT AFTER id",
        "3, 4, 5, 'z'",
        FOLLOWED,
    ),
    "followed_types": Case(
        "n INT, s BIGINT, d DECIMAL(10,2), f FLOAT, e ENUM('a', 'b'), g ENUM('x', 'yy'), "
        "v VARCHAR(5), c CHAR(5), t VARCHAR(9), o DATETIME",
        (
            "1, 1, 1.25, 1.5, 'a', 'x', 'v', 'c', 't', '2026-11-21 01:02:03'",
            "2, 9223372036854775807, NULL, NULL, 'b', 'yy', NULL, NULL, NULL, NULL",
        ),
        "UPDATE {0} SET n = 5 WHERE id = 1; UPDATE {0} SET s = 2 WHERE id = 2; "
        "ALTER TABLE {0} MODIFY n BIGINT, MODIFY s INT, MODIFY d DECIMAL(14,2), MODIFY f DOUBLE, "
        "MODIFY e ENUM('c', 'b', 'a'), MODIFY g VARCHAR(9), MODIFY v VARCHAR(50), "
        "MODIFY c VARCHAR(5), MODIFY t TEXT, MODIFY o DATETIME(3); "
        "ALTER TABLE {0} MODIFY id BIGINT; UPDATE {0} SET id = 7 WHERE id = 2",
        "4294967296, 3, 123456789012.25, 2.5, 'c', 'z', 'vvvvvvvvv', 'c', 't', "
        "'2026-11-21 01:02:03.5'",
        FOLLOWED,
    ),
    "followed_numbers": Case(
        "n INT, m INT, b BIGINT, d DECIMAL(10,2)",
        ("1, -1, 1, 1.25", "2, NULL, 9223372036854775807, NULL"),
        "UPDATE {0} SET n = 5 WHERE id = 1; "
        "ALTER TABLE {0} MODIFY n DECIMAL(12,2), MODIFY m DECIMAL(5,2), MODIFY b BIGINT UNSIGNED, "
        "MODIFY d DECIMAL(14,4); "
        "ALTER TABLE {0} MODIFY id BIGINT UNSIGNED; UPDATE {0} SET id = 7 WHERE id = 2",
        "3.25, 100.01, 18446744073709551615, 3.1234",
        FOLLOWED,
    ),
    "followed_charset": Case(
        "v VARCHAR(9) CHARACTER SET latin1, t TEXT CHARACTER SET utf8mb3",
        ("'\u00e9', '\u20ac'", "NULL, 'b'"),
        "UPDATE {0} SET t = 'c' WHERE id = 2; ALTER TABLE {0} CONVERT TO CHARACTER SET utf8mb4",
        "'\U0001f600', '\U0001f600'",
        FOLLOWED,
    ),
    "another_key": Case(
        "code INT NOT NULL",
        ("10", "20"),
        "UPDATE {0} SET code = 21 WHERE id = 2; "
        "ALTER TABLE {0} DROP PRIMARY KEY, ADD PRIMARY KEY (code); "
        "UPDATE {0} SET code = 11 WHERE id = 1",
        "30",
        "the table's primary key changed",
    ),
    "dropped_and_created": Case(
        "n INT",
        ("1", "2"),
        "UPDATE {0} SET n = 3; DROP TABLE {0}; "
        "CREATE TABLE {0} (code INT PRIMARY KEY, n VARCHAR(9), m INT)",
        "'x', 9",
        FOLLOWED,
    ),
    "renamed_and_back": Case(
        "n INT",
        ("1", "2"),
        "ALTER TABLE {0} RENAME {0}_away; UPDATE {0}_away SET n = 9 WHERE id = 1; "
        "RENAME TABLE {0}_away TO {0}",
        "3",
        FOLLOWED,
    ),
    "numbered": Case(
        "n INT",
        ("1", "2"),
        "ALTER TABLE {0} ADD c INT AUTO_INCREMENT UNIQUE; ALTER TABLE {0} MODIFY c INT NULL",
        "3, 9",
        "older rows have in the new column c is not known",
    ),
}
CASES |= EVERYWHERE
MARIADB = EVERYWHERE | {
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


@pytest.mark.parametrize(
    ("kind", "format_", "merged"),
    [
        ("mariadb118", "iceberg", True),
        ("mysql97", "delta", True),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in [
                ("mysql97", "iceberg", True),
                # Nothing of it depends on the server.
                ("mysql97", "iceberg", False),
                ("mariadb1011", "iceberg", True),
                ("mariadb1011", "delta", True),
                ("mariadb118", "delta", True),
                ("mysql97", "delta", False),
                ("mariadb1011", "iceberg", False),
                ("mariadb118", "iceberg", False),
            ]
        ),
    ],
)
def test_each_statement_is_right_or_refused(
    create_pipeline: Callable[..., Pipeline], kind: str, format_: str, merged: bool
) -> None:
    """With the rows from before in the lake, or in the range of the statement."""
    cases = CASES if kind == "mysql97" else dict(MARIADB)
    if (kind, format_, merged) == ("mysql97", "delta", True):
        # Where it differs from the other format: in how columns change.
        cases = {name: case for name, case in EVERYWHERE.items() if name.startswith("followed")}
    if format_ == "iceberg" and merged:
        refused = "Iceberg does not change the type of a column so"
        cases = cases | {"followed_numbers": replace(cases["followed_numbers"], refused=refused)}
    if kind == "mariadb1011":
        # It refuses the statement.
        cases.pop("inet", None)
    pipeline = create_pipeline(kind, format_)
    begin(pipeline.database, cases)
    if merged:
        pipeline.run()

    go_on(pipeline.database, cases)

    check(pipeline, cases)
