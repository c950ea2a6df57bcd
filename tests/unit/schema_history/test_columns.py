"""Columns and keys keep their ids under every name, and a new one gets a new id."""

from __future__ import annotations

import pytest

from airflow_provider_binlog.schema import (
    NULL,
    AddField,
    AlterField,
    Default,
    DropField,
    RenameField,
    RewriteRows,
    SetKey,
    UnknownDefault,
)
from tests.unit.schema_history.log import Log, T, U, a_table, rewritten


def test_the_first_rows_of_a_table_number_its_columns_and_are_no_action() -> None:
    log = Log()

    assert log.rows(T, "id int", "a int") == []
    assert log.rows(T, "id int", "a int") == []

    state = log.state(T)
    assert log.names() == {1: "id", 2: "a"}
    assert (state.created, state.last_field_id, state.logged) == (None, 2, 1)


def test_a_column_that_is_dropped_and_added_is_another_one() -> None:
    log = a_table()
    table = log.state(T).id

    actions = log.run("ALTER TABLE t DROP b, ADD b INT DEFAULT 7")

    assert actions == [DropField(table, 3, "b"), AddField(table, 4, "b")]
    assert log.names() == {1: "id", 2: "a", 4: "b"}
    schema = log.state(T).schema
    assert schema is not None
    assert (schema.id, schema.fields[2].initial_default) == (2, Default("7"))
    assert log.rows(T, "id int", "a int", "b int") == []
    schema = log.state(T).schema
    assert schema is not None
    assert all(field.arrow_type for field in schema.fields)
    assert schema.fields[2].initial_default == Default("7")


@pytest.mark.parametrize(
    "clauses", ["ADD c DOUBLE, ALTER COLUMN c SET DEFAULT 5", "ALTER C SET DEFAULT 5, ADD c INT"]
)
def test_a_default_that_is_set_with_a_new_column_is_not_known(clauses: str) -> None:
    log = a_table()

    log.run(f"ALTER TABLE t {clauses}")

    assert isinstance(log.fields()[-1].initial_default, UnknownDefault)
    assert log.fields()[-1].write_default is None


def test_exchanged_names_are_two_renames() -> None:
    log = a_table()
    table = log.state(T).id

    actions = log.run("ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a")

    assert actions == [RenameField(table, 2, "a", "b"), RenameField(table, 3, "b", "a")]
    assert log.names() == {1: "id", 2: "b", 3: "a"}
    assert log.rows(T, "id int", "b int", "a int") == []


def test_a_default_of_exchanged_names_may_be_of_either() -> None:
    log = a_table()

    log.run("ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a, ALTER a SET DEFAULT 5")
    assert [each.write_default for each in log.fields()] == [None, None, None]

    log.run("ALTER TABLE t ALTER a SET DEFAULT 5")
    assert [each.write_default for each in log.fields()] == [None, None, Default("5")]


def test_of_columns_that_no_row_has_shown_little_is_certain() -> None:
    log = Log()

    (added,) = log.run("ALTER TABLE t ADD COLUMN IF NOT EXISTS a INT DEFAULT 5")
    table = log.state(T).id
    assert added == AddField(table, 1, "a", optional=True)
    assert log.run("ALTER TABLE t ADD COLUMN IF NOT EXISTS a INT") == []
    assert log.run("ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4") == [
        RewriteRows(table, "converted the text of columns that no row has shown yet")
    ]
    # Of a table that the log has from its beginning, and of one whose rows show them, it is.
    log.run("CREATE TABLE u (id INT, a VARCHAR(9) CHARACTER SET latin1)")
    other = log.state(U).id
    assert log.run("ALTER TABLE u ADD COLUMN IF NOT EXISTS b INT") == [AddField(other, 3, "b")]
    converted = log.run("ALTER TABLE u CONVERT TO CHARACTER SET utf8mb4")
    assert rewritten(converted) == []
    log.rows(T, "id int", "a int")
    assert log.run("ALTER TABLE t ADD COLUMN IF NOT EXISTS b INT") == [AddField(table, 3, "b")]
    assert log.run("ALTER TABLE t CONVERT TO CHARACTER SET latin1") == []


def test_a_table_that_is_created_has_the_columns_of_its_statement_alone() -> None:
    log = Log()
    (created,) = log.run("CREATE TABLE t (id INT, a INT)")

    for statement in (
        "ALTER TABLE t CHANGE COLUMN IF EXISTS b c INT, DROP COLUMN IF EXISTS d",
        "ALTER TABLE t RENAME COLUMN IF EXISTS b TO c",
    ):
        assert log.run(statement) == []
    assert log.names() == {1: "id", 2: "a"}
    renamed = log.run("ALTER TABLE t RENAME COLUMN IF EXISTS A TO c")
    assert renamed == [RenameField(created.table, 2, "a", "c")]


def test_of_a_table_like_an_unknown_one_the_first_row_shows_the_columns() -> None:
    log = Log()
    log.run("ALTER TABLE u ADD COLUMN a INT")  # of whose columns no other is known
    (created,) = log.run("CREATE TABLE t LIKE u")

    assert log.run("ALTER TABLE t ADD COLUMN b INT, DROP COLUMN c, ADD PRIMARY KEY (b)") == []
    assert log.state(T).schema is None
    assert log.run("ALTER TABLE t DROP PARTITION p") == [
        RewriteRows(created.table, "ran DROP PARTITION")
    ]


def test_names_are_the_same_in_any_case() -> None:
    log = a_table()

    log.run("ALTER TABLE t CHANGE A c INT, DROP B")

    assert log.names() == {1: "id", 2: "c"}


def test_names_that_only_full_folding_takes_for_one_are_different() -> None:
    log = Log()
    columns = ("id int", "ss int", "ß int")
    log.rows(T, *columns)

    assert log.rows(T, *columns) == []
    assert log.run("ALTER TABLE t DROP ß") == [DropField(log.state(T).id, 3, "ß")]
    assert log.names() == {1: "id", 2: "ss"}


def test_what_is_put_before_a_key_that_mysql_generated_is_not_followed() -> None:
    log = Log()
    log.rows(T, "my_row_id bigint_unsigned", "a int")

    (rewritten,) = log.run("ALTER TABLE t ADD b INT FIRST")

    assert isinstance(rewritten, RewriteRows)
    assert rewritten.field is None


def test_a_key_is_set_by_statements_and_by_what_rows_show() -> None:
    log = a_table()
    table = log.state(T).id

    assert log.run("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (a)") == [
        # The column is NOT NULL from now on.
        AlterField(table, 2, "a", "int", "int"),
        SetKey(table, (2,)),
    ]
    assert log.rows(T, "id int", "a int", "b int", key=3) == [SetKey(table, (3,))]


def test_a_column_that_becomes_a_key_takes_no_null_in_inserts_that_leave_it_out() -> None:
    log = Log()
    log.run("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT DEFAULT 7)")
    assert [field.write_default for field in log.fields()[1:]] == [NULL, Default("7")]

    log.run("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (a, b)")

    assert [field.write_default for field in log.fields()[1:]] == [None, Default("7")]


def test_what_rows_alone_show_is_an_action() -> None:
    log = a_table()
    table = log.state(T).id

    actions = log.rows(T, "id int", "b bigint", "c int")

    assert actions == [
        DropField(table, 2, "a"),
        AlterField(table, 3, "b", "int", "bigint"),
        AddField(table, 4, "c"),
    ]
    schema = log.state(T).schema
    assert schema is not None
    assert isinstance(schema.fields[2].initial_default, UnknownDefault)
    rewritten = log.rows(T, "id int", "b decimal(3,1)", "c int")
    assert [type(each) for each in rewritten] == [AlterField, RewriteRows]


@pytest.mark.parametrize(
    "statement",
    ["DROP nothing", "ADD SYSTEM VERSIONING", "RENAME COLUMN x TO y", "ADD a INT"],
)
def test_a_statement_that_does_not_fit_rewrites_rows(statement: str) -> None:
    log = a_table()

    (action,) = log.run(f"ALTER TABLE t {statement}")

    assert isinstance(action, RewriteRows)
    assert action.field is None
    assert log.state(T).created is None


def test_statements_on_a_table_without_rows_name_its_columns() -> None:
    log = Log()
    actions = log.run("ALTER TABLE t DROP n, ADD n INT, RENAME COLUMN a TO b")
    table = log.state(T).id

    assert actions == [
        DropField(table, 1, "n"),
        RenameField(table, 2, "a", "b"),
        AddField(table, 3, "n"),
    ]
    assert log.rows(T, "id int", "b int", "n int") == []
    assert log.names() == {4: "id", 2: "b", 3: "n"}
    schema = log.state(T).schema
    assert schema is not None
    assert [each.initial_default for each in schema.fields] == [None, None, NULL]
