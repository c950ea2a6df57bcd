"""Comments of tables and columns, as statements set them."""

from __future__ import annotations

from airflow_provider_binlog.sql.ddl import perhaps_of_temporary, read_ddl
from tests.unit.schema_history.log import STRICT, Log, T, U, a_table


def comments(log: Log) -> dict[str, str | None]:
    return {field.name: field.comment for field in log.fields()}


def comment(log: Log, name: tuple[str, str] = T) -> str | None:
    schema = log.state(name).schema
    assert schema is not None
    return schema.comment


def test_a_table_has_the_comments_of_its_statements() -> None:
    log = Log()
    log.run(
        "CREATE TABLE t (id INT PRIMARY KEY COMMENT 'number', a INT, b INT COMMENT '')"
        " ENGINE=InnoDB COMMENT='orders' PARTITION BY HASH (id) (PARTITION p COMMENT 'not this')"
    )
    assert (comment(log), comments(log)) == ("orders", {"id": "number", "a": None, "b": None})

    log.rows(T, "id int", "a int", "b int")
    log.run(
        "ALTER TABLE t COMMENT 'all orders', MODIFY a INT COMMENT 'it''s', ADD c INT COMMENT 'c'"
    )
    log.rows(T, "id int", "a int", "b int", "c int")
    said = {"id": "number", "a": "it's", "b": None, "c": "c"}
    assert (comment(log), comments(log)) == ("all orders", said)

    log.run("ALTER TABLE t RENAME COLUMN a TO d, MODIFY c INT, COMMENT=''")
    assert (comment(log), comments(log)) == ("", {"id": "number", "d": "it's", "b": None, "c": ""})


def test_a_table_like_another_one_has_its_comments() -> None:
    log = Log()
    log.run("CREATE TABLE t (id INT PRIMARY KEY COMMENT 'number') COMMENT='orders'")
    log.run("CREATE TABLE u LIKE t")

    assert (comment(log, U), log.fields(U)[0].comment) == ("orders", "number")


def test_a_comment_leaves_what_rows_have_shown() -> None:
    log = a_table()
    before = log.state(T).schema

    assert log.run("ALTER TABLE t COMMENT 'x'") == []

    state = log.state(T)
    assert before is not None
    assert state.schema is not None
    # Another schema has another number; nobody has to be asked for the columns again.
    assert state.schema.id > before.id
    assert state.is_confirmed


def test_a_comment_of_a_table_without_known_columns_is_not_kept() -> None:
    log = Log()

    assert log.run("ALTER TABLE t COMMENT 'x'") == []
    assert T not in log.tables.names or log.state(T).schema is None


def test_a_comment_in_a_session_with_temporary_tables_makes_no_table_stale() -> None:
    ddl = read_ddl("ALTER TABLE t COMMENT 'x'", STRICT)
    assert ddl is not None

    assert perhaps_of_temporary(ddl).changes == ()
