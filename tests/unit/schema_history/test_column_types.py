"""Another type of a column is followed, or rewrites its rows."""

from __future__ import annotations

import pytest

from airflow_provider_binlog.schema import AddField, AlterField, Field, Schema
from tests.unit.schema_history.log import Log, T, rewritten


@pytest.mark.parametrize(
    ("before", "statement", "rewrites"),
    [
        ("a int", "MODIFY a BIGINT", False),
        ("a int", "MODIFY a INT COMMENT 'x'", False),
        ("a varchar(9) utf8mb4", "MODIFY a VARCHAR(20) CHARACTER SET utf8mb4", False),
        ("a varchar(9) utf8mb4", "MODIFY a VARCHAR(20)", False),
        ("a varchar(9) utf8mb4", "MODIFY a VARCHAR(20) CHARACTER SET latin1", True),
        ("a binary(4)", "MODIFY a BINARY(8)", True),
        ("a bit(8)", "MODIFY a BIT(16)", True),
        ("a text utf8mb4", "MODIFY a JSON", True),
        ("a decimal(65,30)", "MODIFY a DECIMAL(60,20)", True),
        ("a datetime(6)", "MODIFY a DATETIME", True),
        ("a enum('x','y') utf8mb4", "MODIFY a ENUM('y','x')", False),
        ("a enum('x','y') utf8mb4", "MODIFY a ENUM('y','z')", True),
        ("a enum('x','y') utf8mb4", "MODIFY a ENUM('x','y','z')", False),
        ("a int", "MODIFY a INT GENERATED ALWAYS AS (id + 1) STORED", True),
        ("a varchar(9) latin1", "CONVERT TO CHARACTER SET utf8mb4", False),
        ("a varchar(9) utf8mb4", "CONVERT TO CHARACTER SET latin1", True),
        ("a int", "CONVERT TO CHARACTER SET latin1", False),
        # Kept, but staged as text or bytes that say more.
        ("a decimal(40,2)", "MODIFY a DECIMAL(41,3)", True),
        ("a decimal(40,2)", "MODIFY a DECIMAL(41,2)", False),
        ("a decimal(10,2)", "MODIFY a DECIMAL(11,3)", False),
        ("a datetime - string", "MODIFY a DATETIME(3)", True),
        ("a datetime - string", "MODIFY a DATETIME NOT NULL COMMENT 'x'", False),
        ("a timestamp(3) - string", "MODIFY a TIMESTAMP(6)", True),
        ("a datetime", "MODIFY a DATETIME(3)", False),
        ("a varchar(9) latin1 binary", "CONVERT TO CHARACTER SET utf8mb4", True),
        ("a varchar(9) utf8mb3 binary", "CONVERT TO CHARACTER SET utf8mb4", False),
        ("a varchar(9) latin1 binary", "MODIFY a VARCHAR(9) CHARACTER SET utf8mb4", True),
        ("a varchar(9) latin1 binary", "MODIFY a VARCHAR(20)", False),
    ],
)
def test_a_change_of_type_rewrites_rows_where_it_changes_values(
    before: str, statement: str, rewrites: bool
) -> None:
    log = Log()
    log.rows(T, "id int", before)

    actions = log.run(f"ALTER TABLE t {statement}")

    assert rewritten(actions) == ([2] if rewrites else [])


@pytest.mark.parametrize(
    ("statement", "rewrites"),
    [
        ("MODIFY a VARCHAR(9) CHARACTER SET utf8mb4", True),
        ("MODIFY a VARCHAR(20) CHARACTER SET latin1", False),
        ("MODIFY n BIGINT", False),
        ("MODIFY n DECIMAL(20,0)", True),
        ("MODIFY at DATETIME(3)", True),
        ("RENAME COLUMN n TO m, ADD x INT", False),
    ],
)
def test_another_type_changes_what_is_computed_from_it(statement: str, rewrites: bool) -> None:
    log = Log()
    columns = "id INT, a VARCHAR(9) CHARACTER SET latin1, n INT, at DATETIME"
    log.run(f"CREATE TABLE t ({columns}, size INT AS (LENGTH(a)) STORED)")
    log.rows(T, "id int", "a varchar(9) latin1", "n int", "at datetime", "size int")

    actions = log.run(f"ALTER TABLE t {statement}")

    assert rewritten(actions) == ([5] if rewrites else [])
    assert [each.generated for each in log.fields()][:5] == [False, False, False, False, True]


@pytest.mark.parametrize(
    ("statement", "rewrites"),
    [
        ("CONVERT TO CHARACTER SET utf8mb4", []),
        ("CONVERT TO CHARACTER SET latin1", [2]),
        ("MODIFY a VARCHAR(20) CHARACTER SET utf8mb3, MODIFY id BIGINT NOT NULL", []),
        ("MODIFY a INT", [2]),
    ],
)
def test_the_columns_of_a_quiet_table_are_those_of_its_snapshot(
    statement: str, rewrites: list[int]
) -> None:
    fields = (
        Field(1, "id", "int", "int32", nullable=False),
        Field(2, "a", "varchar(9)", "string", nullable=True, charset="utf8mb3"),
    )
    log = Log(snapshots={T: Schema(1, fields, (1,))})

    assert rewritten(log.run(f"ALTER TABLE t {statement}")) == rewrites
    assert log.names() == {1: "id", 2: "a"}
    assert log.run("ALTER TABLE t ADD b INT") == [AddField(log.state(T).id, 3, "b")]
    assert not log.state(T).is_partial


@pytest.mark.parametrize(
    ("column", "rewrites"), [("id INT AUTO_INCREMENT", []), ("id INT NOT NULL", [1])]
)
def test_a_column_that_was_auto_increment_before_is_not_numbered(
    column: str, rewrites: list[int]
) -> None:
    log = Log()
    log.run(f"CREATE TABLE t ({column}, n INT, PRIMARY KEY (id))")
    log.rows(T, "id int", "n int")

    assert rewritten(log.run("ALTER TABLE t MODIFY id INT NOT NULL AUTO_INCREMENT")) == rewrites
    assert [each.auto_increment for each in log.fields()] == [True, False]


def test_two_changes_of_type_do_not_hide_each_other() -> None:
    log = Log()
    log.rows(T, "id int", "a decimal(30,10)")

    narrows = log.run("ALTER TABLE t MODIFY a DECIMAL(20,5)")
    widens = log.run("ALTER TABLE t MODIFY a DECIMAL(30,10)")

    assert rewritten(narrows)
    assert rewritten(widens) == []
    assert log.rows(T, "id int", "a decimal(30,10)") == []


def test_a_character_set_that_a_statement_leaves_out_is_compared_when_rows_show_it() -> None:
    for shown, rewrites in (("utf8mb4", False), ("latin1", True)):
        log = Log()
        log.rows(T, "id int", "a varchar(9) utf8mb4")

        assert rewritten(log.run("ALTER TABLE t MODIFY a VARCHAR(20)")) == []
        found = log.rows(T, "id int", f"a varchar(20) {shown}")
        assert bool(rewritten(found)) == rewrites


def test_text_staged_as_bytes_is_rewritten_by_a_character_set_that_rows_show() -> None:
    log = Log()
    log.rows(T, "id int", "a varchar(9) latin1 binary")

    assert log.run("ALTER TABLE t MODIFY a VARCHAR(20)") == [
        AlterField(log.state(T).id, 2, "a", "varchar(9)", "varchar(20)")
    ]
    found = log.rows(T, "id int", "a varchar(20) utf8mb4 binary")
    assert rewritten(found)


def test_a_character_set_that_rows_never_showed_is_not_taken_for_the_one_before() -> None:
    log = Log()
    log.rows(T, "id int", "a varchar(9) utf8mb4")
    log.run("ALTER TABLE t MODIFY a VARCHAR(20)")  # perhaps latin1 now

    actions = log.run("ALTER TABLE t MODIFY a VARCHAR(20) CHARACTER SET utf8mb4")

    assert rewritten(actions)


@pytest.mark.parametrize(
    ("definition", "shown"),
    [
        ("ENUM(x'61','b')", "enum('a','b') utf8mb4"),
        ("ENUM('a','b') CHARACTER SET binary", "enum('a','b')"),
        ("SET('a') BYTE", "set('a')"),
        ("VECTOR", "vector(2048)"),
        ("TEXT CHARACTER SET utf8mb4, CONVERT TO CHARACTER SET latin1", "text latin1"),
        ("VARCHAR(9), CONVERT TO CHARACTER SET utf8", "varchar(9) utf8mb3"),
    ],
)
def test_rows_show_a_new_column_as_its_statement_says(definition: str, shown: str) -> None:
    log = Log()
    log.rows(T, "id int", "a int")

    (added,) = log.run(f"ALTER TABLE t ADD b {definition}")

    assert isinstance(added, AddField)
    assert log.rows(T, "id int", "a int", f"b {shown}") == []


def test_a_column_that_the_server_numbers_holds_no_null() -> None:
    log = Log()
    log.rows(T, "id int", "a int")

    log.run("ALTER TABLE t ADD b INT AUTO_INCREMENT UNIQUE")

    assert not log.fields()[-1].nullable
