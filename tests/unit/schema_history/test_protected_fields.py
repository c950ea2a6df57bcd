"""Tables with protected columns, statement after statement, as manifests show them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.protected_columns import ColumnRules, HashSecret
from airflow_provider_binlog.schema import (
    AddField,
    AlterField,
    Default,
    DropField,
    RenameField,
    RewriteRows,
    SetKey,
    TableState,
    UnknownDefault,
)
from airflow_provider_binlog.schema_history.protected_fields import without_values
from airflow_provider_binlog.sql.ddl import read_ddl
from airflow_provider_binlog.table_options import ColumnOptions
from tests.unit.schema_history.log import STRICT, Log, T

SECRET = HashSecret("pepper")
RULES = ColumnRules((ColumnOptions("shop.t", exclude=("pw",), hash=("mail",)),), SECRET)
COLUMNS = ("id int", "mail varchar(9) latin1 string", "pw varchar(9) latin1 string", "a int")


def staged(log: Log) -> dict[str, int]:
    """Return the staged columns of the table, with their field ids."""
    schema = log.state(T).schema
    assert schema is not None
    return {own.name: own.id for own in schema.staged.fields}


def a_log(rules: ColumnRules = RULES, **known: object) -> Log:
    log = Log(columns=rules, **known)  # type: ignore[arg-type]
    log.rows(T, *COLUMNS)
    return log


def later(log: Log, rules: ColumnRules) -> Log:
    """Return the next range, captured by other rules."""
    return Log(columns=rules, known={T: log.state(T)})


def test_actions_on_an_excluded_column_are_in_no_manifest() -> None:
    log = a_log()
    assert staged(log) == {"id": 1, "mail": 2, "a": 4}

    assert log.run("ALTER TABLE t MODIFY pw INT NOT NULL DEFAULT 5 FIRST") == []
    assert log.run("ALTER TABLE t RENAME COLUMN pw TO x, ADD COLUMN PW INT") == []
    assert staged(log) == {"id": 1, "mail": 2, "a": 4}
    assert log.run("ALTER TABLE t DROP x, DROP a") == [DropField(log.state(T).id, 4, "a")]
    assert log.rows(T, "id int", "mail varchar(9) latin1 string", "PW int") == []
    assert staged(log) == {"id": 1, "mail": 2}


def test_a_column_that_gets_the_name_of_an_excluded_one_is_dropped() -> None:
    log = a_log()
    table = log.state(T).id

    assert log.run("ALTER TABLE t RENAME COLUMN a TO pw, RENAME COLUMN pw TO a") == [
        DropField(table, 4, "a")
    ]
    assert staged(log) == {"id": 1, "mail": 2}


def test_a_hashed_column_keeps_its_hashes_under_another_name() -> None:
    log = a_log()
    table = log.state(T).id

    assert log.run("ALTER TABLE t RENAME COLUMN mail TO m") == [RenameField(table, 2, "mail", "m")]
    assert log.run("ALTER TABLE t MODIFY m VARCHAR(99) NOT NULL DEFAULT 'x'") == [
        AlterField(table, 2, "m", "varchar(9)", "varchar(99)")
    ]
    (field,) = [own for own in log.fields() if own.name == "m"]
    assert (field.hashed, field.origin) == (SECRET.id, (*T, "mail"))
    assert field.write_default == Default(*SECRET.digests([b"x"]))


def test_a_hashed_column_is_added_with_the_hash_of_its_default() -> None:
    log = Log(columns=RULES)
    log.rows(T, "id int")

    log.run("ALTER TABLE t ADD mail VARCHAR(9) NOT NULL DEFAULT 'x', ADD pw INT DEFAULT 5")
    (field,) = [own for own in log.fields() if own.name == "mail"]
    assert field.initial_default == Default(*SECRET.digests([b"x"]))
    assert staged(log) == {"id": 1, "mail": 2}
    # What is hashed already is not hashed again.
    log.run("ALTER TABLE t ADD b INT")
    log.run("CREATE TABLE _t_gho LIKE t")
    assert log.fields()[1].initial_default == field.initial_default
    assert log.fields(("shop", "_t_gho"))[1].write_default == field.write_default


@pytest.mark.parametrize(
    ("statement", "rewrites"),
    [
        ("ALTER TABLE t MODIFY mail VARCHAR(99) CHARACTER SET latin1", False),
        ("ALTER TABLE t MODIFY mail TEXT CHARACTER SET latin1", False),
        ("ALTER TABLE t MODIFY mail VARBINARY(99)", True),
    ],
)
def test_another_type_of_which_another_text_is_hashed_rewrites_rows(
    statement: str, *, rewrites: bool
) -> None:
    actions = a_log().run(statement)

    assert any(isinstance(action, RewriteRows) for action in actions) == rewrites


def test_columns_that_are_excluded_from_now_on_are_dropped() -> None:
    log = later(a_log(ColumnRules()), RULES)

    actions = log.rows(T, *COLUMNS)

    id_ = log.state(T).id
    assert actions == [
        RewriteRows(id_, "the options hash column mail from here on", 2),
        DropField(id_, 3, "pw"),
    ]
    assert log.rows(T, *COLUMNS) == []


def test_columns_that_are_not_protected_any_more_are_unknown_in_older_rows() -> None:
    log = later(a_log(), ColumnRules())
    actions = log.rows(T, *COLUMNS)

    id_ = log.state(T).id
    assert actions == [
        RewriteRows(id_, "the options do not hash column mail from here on", 2),
        AddField(id_, 3, "pw"),
    ]
    assert isinstance(log.fields()[2].initial_default, UnknownDefault)
    assert staged(log) == {"id": 1, "mail": 2, "pw": 3, "a": 4}


def test_another_secret_rewrites_rows() -> None:
    other = replace(RULES, secret=HashSecret("salt"))
    log = later(a_log(), other)

    (action,) = log.rows(T, *COLUMNS)
    assert isinstance(action, RewriteRows)
    assert "with another secret" in action.reason


def test_no_default_in_clear_is_left_where_the_options_change() -> None:
    plain = a_log(ColumnRules())
    plain.run("ALTER TABLE t ALTER mail SET DEFAULT 'SECRET', ALTER pw SET DEFAULT 'SECRET'")
    plain.run("ALTER TABLE t ADD pin CHAR(9) NOT NULL DEFAULT 'SECRET'")
    rules = ColumnRules((ColumnOptions("shop.t", exclude=("pw",), hash=("mail", "pin")),), SECRET)
    columns = (*COLUMNS, "pin char(9) latin1 string")

    log = later(plain, rules)
    log.rows(T, *columns)
    assert "SECRET" not in repr(log.state(T))


def test_an_excluded_column_in_the_key_is_refused_by_name() -> None:
    log = Log(columns=RULES)
    with pytest.raises(ConfigurationError, match=r"cannot be excluded.*table=shop.t, column=pw"):
        log.rows(T, *COLUMNS, key=3)
    # A statement makes it the key; the next row refuses it.
    log = a_log()
    assert log.run("ALTER TABLE t ADD PRIMARY KEY (pw)") == [SetKey(log.state(T).id, ())]


def test_a_statement_that_renames_a_column_which_nothing_has_shown_yet() -> None:
    log = Log(columns=RULES)
    log.run("ALTER TABLE t RENAME COLUMN pw TO x, RENAME COLUMN mail TO m")

    log.rows(T, "id int", "x varchar(9) latin1 string", "m varchar(9) latin1 string")
    assert [own.name for own in log.fields() if own.excluded] == ["x"]
    assert [own.name for own in log.fields() if own.hashed] == ["m"]


SECRETS = [
    "ALTER TABLE t MODIFY pw VARCHAR(30) DEFAULT 'SECRET', MODIFY mail ENUM('SECRET')",
    "ALTER TABLE t ADD (PW2 INT, mail2 INT), ALTER COLUMN mail SET DEFAULT 'SECRET'",
    "ALTER TABLE t CHANGE pw p CHAR(9) DEFAULT (CONCAT('SECRET')), ALTER mail SET DEFAULT 'SECRET'",
    "ALTER TABLE t ADD CONSTRAINT c CHECK (pw <> 'SECRET'), MYSTERY 'SECRET' COLUMN",
    "ALTER TABLE t PARTITION BY LIST COLUMNS(mail) (PARTITION p VALUES IN ('SECRET'))",
    "DROP TABLE t; CREATE TABLE t (id INT, pw SET('SECRET') DEFAULT 'SECRET')",
    "ALTER TABLE t DROP pw; ALTER TABLE t ADD pw VARCHAR(9) NOT NULL DEFAULT 'SECRET'",
    "ALTER TABLE t DROP mail; ALTER TABLE t ADD mail DECIMAL(9,2) NOT NULL DEFAULT 'SECRET'",
]


@pytest.mark.parametrize("statements", SECRETS)
def test_no_literal_of_a_protected_column_is_in_actions_or_schemas(statements: str) -> None:
    log, shown = a_log(), []
    for statement in statements.split("; "):
        shown += [log.run(statement), [each.state for each in log.tables.touched.values()]]

    assert "SECRET" not in repr(shown)


@pytest.mark.parametrize("statements", SECRETS)
def test_no_literal_is_in_what_a_plan_stores_of_statements(statements: str) -> None:
    for statement in statements.split("; "):
        ddl = read_ddl(statement, STRICT)
        assert ddl is not None
        stored = [without_values(change, {T}) for change in ddl.changes]
        assert "SECRET" not in repr(stored)
        assert [type(change) for change in stored] == [type(change) for change in ddl.changes]


def test_the_state_of_a_table_survives_its_manifest() -> None:
    state = a_log().state(T)
    assert isinstance(state, TableState)
    assert state.schema is not None
    assert replace(state, schema=state.schema.staged.whole) == state
