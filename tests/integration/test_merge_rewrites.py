"""Statements that change values or rows without row events, from a real server to both lakes.

Each table is right in the lake, or the merge refuses it by name. A table without another row after
the statement shows that nothing waits for one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.pipeline import Pipeline

REWRITES = "changed without row events"
UNKNOWN = "the value that older rows have in the new column"
FOLLOWED = ""
LAX, STRICT = "SET sql_mode = ''", "SET sql_mode = DEFAULT"


@dataclass(frozen=True)
class Case:
    """One table, and what is done to it between its rows.

    Attributes:
        columns: As CREATE TABLE has them.
        before: Rows.
        ddl: Statements; `{}` is the table's name.
        after: A row; empty for none.
        refused: Part of the refusal; empty if the lake follows.
    """

    columns: str
    before: str
    ddl: tuple[str, ...]
    after: str = ""
    refused: str = REWRITES


def _modify(columns: str, before: str, modify: str, after: str = "", *, lax: bool = False) -> Case:
    alter = f"ALTER TABLE {{}} {modify}"
    return Case(columns, before, (LAX, alter, STRICT) if lax else (alter,), after)


ID = "id INT PRIMARY KEY"
VALUES = {
    "varchar_to_char": _modify(
        f"{ID}, v VARCHAR(9)", "(1, 'a '), (2, 'b')", "MODIFY v CHAR(9)", "(3, 'c')"
    ),
    "shorter_varchar": _modify(
        f"{ID}, v VARCHAR(9)", "(1, 'abcdef')", "MODIFY v VARCHAR(3)", "(3, 'c')", lax=True
    ),
    "fewer_decimals": _modify(
        f"{ID}, d DECIMAL(9,4)", "(1, 1.2345)", "MODIFY d DECIMAL(9,2)", "(3, 1.5)"
    ),
    "enum_other_value": _modify(
        f"{ID}, e ENUM('a','b')", "(1, 'A')", "MODIFY e ENUM('A','b')", "(3, 'b')"
    ),
    "enum_shorter": _modify(
        f"{ID}, e ENUM('a','b')", "(1, 'b')", "MODIFY e ENUM('a')", "(3, 'a')", lax=True
    ),
    "set_other_order": _modify(
        f"{ID}, s SET('a','b')", "(1, 'a,b')", "MODIFY s SET('b','a')", "(3, 'a')"
    ),
    "null_to_not_null": _modify(
        f"{ID}, n INT", "(1, NULL)", "MODIFY n INT NOT NULL", "(3, 3)", lax=True
    ),
    "lossy_charset": _modify(
        f"{ID}, v VARCHAR(9)", "(1, '日')", "MODIFY v VARCHAR(9) CHARSET latin1", lax=True
    ),
    "lossy_conversion": _modify(
        f"{ID}, v VARCHAR(9)", "(1, '日')", "CONVERT TO CHARACTER SET latin1", lax=True
    ),
    # On a key the old rows would stay beside the new ones.
    "char_key": _modify(
        "v VARCHAR(9) PRIMARY KEY, n INT", "('a ', 1)", "MODIFY v CHAR(9)", "('b', 2)"
    ),
    "enum_key": _modify(
        "e ENUM('a','b') PRIMARY KEY, n INT",
        "('b', 1)",
        "MODIFY e ENUM('x','B')",
        "('x', 2)",
        lax=True,
    ),
}
ROWS = {
    "blackhole": _modify(f"{ID}, n INT", "(1, 1)", "ENGINE = BLACKHOLE, COMMENT 'x'", "(3, 3)"),
    "blackhole_and_back": Case(
        f"{ID}, n INT",
        "(1, 1)",
        ("ALTER TABLE {} ENGINE = /* = InnoDB */ BLACKHOLE", "ALTER TABLE {} ENGINE = InnoDB"),
    ),
}
HIDDEN = {
    "generated_in_a_comment": Case(
        f"{ID}, n INT",
        "(1, 1)",
        ("ALTER TABLE {} ADD g INT /*!50100 GENERATED ALWAYS AS (n + 1) STORED */",),
        "(3, 3, DEFAULT)",
        UNKNOWN,
    ),
}
ADDED = {
    "auto_increment": Case(
        f"{ID}, n INT",
        "(1, 1), (2, 2)",
        ("ALTER TABLE {} ADD c INT AUTO_INCREMENT UNIQUE", "ALTER TABLE {} MODIFY c INT NULL"),
        "(3, 3, 9)",
        UNKNOWN,
    ),
    "timestamp": Case(
        f"{ID}, n INT",
        "(1, 1)",
        (
            "SET explicit_defaults_for_timestamp = OFF",
            "ALTER TABLE {} ADD c TIMESTAMP",
            "SET explicit_defaults_for_timestamp = ON",
        ),
        "(3, 3, '2026-11-21 01:02:03')",
        UNKNOWN,
    ),
}
# The time at which the statement started, which the log has.
NOW = {
    "added_now": Case(
        f"{ID}, n INT",
        "(1, 1), (2, 2)",
        (
            "SET time_zone = '+05:30'",
            "ALTER TABLE {} ADD a TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE NOW()",
            "ALTER TABLE {} ADD b DATETIME(3) DEFAULT NOW(3), ADD c TIMESTAMP(6) DEFAULT NOW(6)",
            "UPDATE {} SET n = 5 WHERE id = 2",
            "SET time_zone = DEFAULT",
        ),
        "(3, 3, '2026-11-21 01:02:03', '2026-11-21 01:02:03.004', '2026-11-21 01:02:03.004')",
        FOLLOWED,
    ),
    "added_now_somewhere": Case(
        f"{ID}, n INT",
        "(1, 1)",
        (
            "SET time_zone = 'SYSTEM'",
            "ALTER TABLE {} ADD b DATETIME DEFAULT NOW()",
            "SET time_zone = DEFAULT",
        ),
        "(3, 3, '2026-11-21 01:02:03')",
        UNKNOWN,
    ),
}
OTHERS = {
    "renamed_and_dropped": Case(
        f"{ID}, n INT",
        "(1, 2)",
        ("ALTER TABLE {} RENAME COLUMN n TO m", "UPDATE {} SET m = 3", "DROP TABLE {}"),
        refused=FOLLOWED,
    ),
    "keyless_renamed": Case(
        "id INT, n INT",
        "(1, 2)",
        ("RENAME TABLE {0} TO {0}_r", "RENAME TABLE {0}_r TO {0}"),
        "(3, 4)",
        "the table has no key, and the rows that it had when it was renamed",
    ),
}
QUIET = {
    "dropped": Case(
        f"{ID}, n INT, m INT", "(1, 2, 3)", ("ALTER TABLE {} DROP n",), refused=FOLLOWED
    ),
    "renamed": Case(
        f"{ID}, n INT, m INT",
        "(1, 2, 3)",
        ("ALTER TABLE {} RENAME COLUMN n TO x, RENAME COLUMN m TO n",),
        refused=FOLLOWED,
    ),
    "added_again": Case(
        f"{ID}, n INT",
        "(1, 2)",
        ("ALTER TABLE {} DROP n, ADD n INT DEFAULT 7",),
        refused=FOLLOWED,
    ),
    "added": Case(
        f"{ID}, n INT",
        "(1, 2)",
        (
            "ALTER TABLE {} ADD b BIGINT UNSIGNED DEFAULT 8, ADD v VARCHAR(9) DEFAULT 'x'",
            "ALTER TABLE {} ADD d DECIMAL(9,2) DEFAULT 1.5, ADD e ENUM('a', 'b') NOT NULL",
            "ALTER TABLE {} ADD at DATETIME(3) DEFAULT '2026-11-22 01:02:03.5', ADD c CHAR(3)",
            "ALTER TABLE {} MODIFY c VARCHAR(20), DROP n",
        ),
        refused=FOLLOWED,
    ),
}
CASES = VALUES | ROWS | HIDDEN | ADDED | NOW | OTHERS | QUIET
# What is refused is so in both formats, and a table costs more in Delta.
SOME = {name: (NOW | QUIET)[name] for name in ("added_now", "renamed", "added")}


@pytest.mark.parametrize(
    ("kind", "format_", "cases"),
    [
        pytest.param("mysql97", "iceberg", CASES, id="mysql97-iceberg"),
        pytest.param("mariadb118", "delta", SOME, id="mariadb118-delta", marks=pytest.mark.slow),
        pytest.param("mysql97", "delta", CASES, id="mysql97-delta", marks=pytest.mark.slow),
    ],
)
def test_each_table_is_right_or_refused(
    create_pipeline: Callable[..., Pipeline], kind: str, format_: str, cases: dict[str, Case]
) -> None:
    pipeline = create_pipeline(kind, format_)
    database = pipeline.database
    for name, case in cases.items():
        database.execute(
            f"CREATE TABLE {name} ({case.columns})", f"INSERT INTO {name} VALUES {case.before}"
        )
    pipeline.capture()
    assert pipeline.merge() == {}

    for name, case in cases.items():
        after = [f"INSERT INTO {name} VALUES {case.after}"] if case.after else []
        database.execute(*(each.format(name) for each in case.ddl), *after)
    pipeline.capture()
    errors = pipeline.merge()

    refused = {name: case.refused for name, case in cases.items() if case.refused}
    assert errors.keys() == refused.keys(), errors
    for name, says in refused.items():
        assert says in errors[name]
        assert "position=" in errors[name]
    assert pipeline.differences(but=refused) == []
