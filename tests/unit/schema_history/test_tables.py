"""Tables and their columns keep their ids under every name, and a new one gets a new id."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.position import Flavor, SourceIdentity
from airflow_provider_binlog.schema import (
    NULL,
    AddField,
    AlterField,
    CreateTable,
    Default,
    DropField,
    DropTable,
    Field,
    RenameField,
    RenameTable,
    RewriteRows,
    Schema,
    SetKey,
    TableState,
    TruncateTable,
    UnknownDefault,
)
from airflow_provider_binlog.schema_history.tables import (
    NO_TABLE,
    EventOffset,
    Known,
    NoTable,
    Tables,
)
from airflow_provider_binlog.sql.ddl import read_ddl
from airflow_provider_binlog.sql.session import STRICT_ALL_TABLES, Session

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_binlog.schema import Action, TableName

STRICT = Session(Flavor.MYSQL, "shop", sql_mode=STRICT_ALL_TABLES, explicit_timestamps=True)
T, U = ("shop", "t"), ("shop", "u")


@dataclass
class Log:
    """Statements and rows, one after the other."""

    known: dict[TableName, TableState | NoTable] = field(default_factory=dict)
    captured: Callable[[str, str], bool] = lambda database, _: database == "shop"
    session: Session = STRICT
    offset: int = 4

    def __post_init__(self) -> None:
        def find_all(database: str) -> list[TableState]:
            states = (each for each in self.known.values() if isinstance(each, TableState))
            return [each for each in states if each.name[0] == database]

        identity = SourceIdentity(self.session.flavor, "a-server", "binlog")
        self.tables = Tables(
            Known(self.known.get, find_all),
            captured=self.captured,
            identity=identity,
            sequence=7,
        )

    def next_offset(self) -> EventOffset:
        self.offset += 100
        return EventOffset("binlog.000001", self.offset)

    def run(self, sql: str) -> list[Action]:
        ddl = read_ddl(sql, self.session)
        assert ddl is not None
        return list(self.tables.apply(ddl.changes, self.next_offset(), self.session))

    def rows(self, name: TableName, *columns: str, key: int = 1) -> list[Action]:
        """Log rows of a table whose columns are `name type [charset or - [staged type]]`."""
        fields = []
        for number, column in enumerate(columns, start=1):
            text, mysql_type, *others = column.split()
            charset = others[0] if others and others[0] != "-" else None
            staged = others[1] if others[1:] else f"arrow {mysql_type}"
            fields.append(Field(number, text, mysql_type, staged, True, charset))
        _, _, actions = self.tables.confirm(name, self.next_offset(), fields, (key,))
        return list(actions)

    def state(self, name: TableName) -> TableState:
        (state,) = (
            each.state
            for each in self.tables.touched.values()
            if each.state.name == name and not each.dropped
        )
        return state

    def fields(self, name: TableName = T) -> tuple[Field, ...]:
        schema = self.state(name).schema
        assert schema is not None
        return schema.fields

    def names(self, name: TableName = T) -> dict[int, str]:
        """Return the columns of a table by their field ids."""
        return {each.id: each.name for each in self.fields(name)}


def a_table() -> Log:
    log = Log()
    log.rows(T, "id int", "a int", "b int")
    return log


# ------------------------------------------------------------------- columns


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
    ("clauses", "initial"),
    [
        ("ADD c DOUBLE, ALTER COLUMN c SET DEFAULT 5", "5"),
        ("ALTER C SET DEFAULT 5, ADD c INT NOT NULL DEFAULT 3", "5"),
        ("ADD c INT DEFAULT 3, ALTER IF EXISTS c SET DEFAULT 5", "3"),
        ("ADD c INT DEFAULT 3, ALTER c DROP DEFAULT", None),
        ("DROP a, ADD a INT DEFAULT 3, ALTER a SET DEFAULT 5", "5"),
    ],
)
def test_a_default_that_is_set_with_a_new_column_is_in_older_rows(
    clauses: str, initial: str | None
) -> None:
    log = a_table()

    log.run(f"ALTER TABLE t {clauses}")

    found = log.fields()[-1].initial_default
    assert found == Default(initial) if initial else isinstance(found, UnknownDefault)


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
    assert not any(isinstance(each, RewriteRows) for each in converted)
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
        RewriteRows(created.table, "dropped a partition")
    ]


def test_names_are_the_same_in_any_case() -> None:
    log = a_table()

    log.run("ALTER TABLE t CHANGE A c INT, DROP B")

    assert log.names() == {1: "id", 2: "c"}


def test_a_key_is_set_by_statements_and_by_what_rows_show() -> None:
    log = a_table()
    table = log.state(T).id

    assert log.run("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (a)") == [
        # The column is NOT NULL from now on.
        AlterField(table, 2, "a", "int", "int"),
        SetKey(table, (2,)),
    ]
    assert log.rows(T, "id int", "a int", "b int", key=3) == [SetKey(table, (3,))]


WIDENED = ["a bigint", "a varchar(9) utf8mb4", "a decimal(12,2)"]


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

    found = [each.field for each in actions if isinstance(each, RewriteRows)]
    assert found == ([2] if rewrites else [])


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

    found = [each.field for each in actions if isinstance(each, RewriteRows)]
    assert found == ([5] if rewrites else [])
    assert [each.generated for each in log.fields()][:5] == [False, False, False, False, True]


def test_two_changes_of_type_do_not_hide_each_other() -> None:
    log = Log()
    log.rows(T, "id int", "a decimal(30,10)")

    narrows = log.run("ALTER TABLE t MODIFY a DECIMAL(20,5)")
    widens = log.run("ALTER TABLE t MODIFY a DECIMAL(30,10)")

    assert any(isinstance(each, RewriteRows) for each in narrows)
    assert not any(isinstance(each, RewriteRows) for each in widens)
    assert log.rows(T, "id int", "a decimal(30,10)") == []


def test_a_character_set_that_a_statement_leaves_out_is_compared_when_rows_show_it() -> None:
    for shown, rewrites in (("utf8mb4", False), ("latin1", True)):
        log = Log()
        log.rows(T, "id int", "a varchar(9) utf8mb4")

        assert not any(
            isinstance(each, RewriteRows) for each in log.run("ALTER TABLE t MODIFY a VARCHAR(20)")
        )
        found = log.rows(T, "id int", f"a varchar(20) {shown}")
        assert any(isinstance(each, RewriteRows) for each in found) == rewrites


def test_text_staged_as_bytes_is_rewritten_by_a_character_set_that_rows_show() -> None:
    log = Log()
    log.rows(T, "id int", "a varchar(9) latin1 binary")

    assert log.run("ALTER TABLE t MODIFY a VARCHAR(20)") == [
        AlterField(log.state(T).id, 2, "a", "varchar(9)", "varchar(20)")
    ]
    found = log.rows(T, "id int", "a varchar(20) utf8mb4 binary")
    assert any(isinstance(each, RewriteRows) for each in found)


def test_a_character_set_that_rows_never_showed_is_not_taken_for_the_one_before() -> None:
    log = Log()
    log.rows(T, "id int", "a varchar(9) utf8mb4")
    log.run("ALTER TABLE t MODIFY a VARCHAR(20)")  # perhaps latin1 now

    actions = log.run("ALTER TABLE t MODIFY a VARCHAR(20) CHARACTER SET utf8mb4")

    assert any(isinstance(each, RewriteRows) for each in actions)


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


@pytest.mark.parametrize("statement", ["DROP PARTITION p", "TRUNCATE /*x*/ PARTITION p"])
def test_partitions_take_rows_with_them(statement: str) -> None:
    log = Log()
    log.run("CREATE TABLE t (id INT PRIMARY KEY)")
    log.rows(T, "id int")

    (action,) = log.run(f"ALTER TABLE t {statement}")

    assert isinstance(action, RewriteRows)
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


# ------------------------------------------------------------------- tables


def test_a_created_table_is_complete_and_has_its_columns() -> None:
    log = Log()

    (created,) = log.run("CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9) DEFAULT 'x')")

    state = log.state(T)
    assert created == CreateTable(state.id, T)
    assert (state.created, state.logged, log.names()) == (7, None, {1: "id", 2: "a"})
    assert log.run("ALTER TABLE t MODIFY a INT")[1:] == []  # there is no value to change
    # A key that the server made is no column that was added.
    assert log.rows(T, "my_row_id bigint", "id int", "a int") == []
    assert log.names() == {3: "my_row_id", 1: "id", 2: "a"}


@pytest.mark.parametrize(
    "chain",
    [
        ["RENAME TABLE t TO u"],
        ["RENAME TABLE t TO v, v TO u"],
        ["ALTER TABLE t RENAME TO u"],
        ["ALTER TABLE t ADD c INT, RENAME AS v", "RENAME TABLE v TO other.w, other.w TO u"],
    ],
)
def test_a_renamed_table_is_the_same(chain: list[str]) -> None:
    log = a_table()
    table = log.state(T).id

    actions = [action for statement in chain for action in log.run(statement)]

    assert log.state(U).id == table
    assert all(each.table == table for each in actions)
    assert [each for each in actions if isinstance(each, RenameTable)][-1].new == U


def test_a_swap_with_a_ghost_table_exchanges_ids() -> None:
    log = a_table()
    log.run("CREATE TABLE _t_gho LIKE t")
    log.run("ALTER TABLE _t_gho ADD c INT")
    table, ghost = log.state(T), log.state(("shop", "_t_gho"))

    actions = log.run("RENAME TABLE t TO _t_del, _t_gho TO t")

    assert actions == [
        RenameTable(table.id, T, ("shop", "_t_del")),
        RenameTable(ghost.id, ("shop", "_t_gho"), T),
    ]
    assert log.state(T).id == ghost.id
    assert log.names() == {1: "id", 2: "a", 3: "b", 4: "c"}
    assert log.run("DROP TABLE _t_del") == [DropTable(table.id, ("shop", "_t_del"))]


@pytest.mark.parametrize(
    "create", ["CREATE TABLE t (id INT)", "CREATE TABLE IF NOT EXISTS t (id INT)"]
)
def test_a_dropped_and_created_table_is_another_one(create: str) -> None:
    log = a_table()
    table = log.state(T).id

    assert log.run("DROP TABLE t") == [DropTable(table, T)]
    assert log.run("DROP TABLE IF EXISTS t") == []
    (created,) = log.run(create)

    assert created.table != table
    assert log.state(T).created == 7


def test_a_replaced_table_is_another_one_though_nothing_is_known_of_the_first() -> None:
    for known in ({}, {T: TableState("0" * 16, T)}):
        log = Log(known=dict(known))

        dropped, created = log.run("CREATE OR REPLACE TABLE t (id INT)")

        assert isinstance(dropped, DropTable)
        assert isinstance(created, CreateTable)
        assert dropped.table != created.table
        assert dropped.name == created.name == T


def test_a_table_that_may_have_been_there_is_not_created() -> None:
    log = Log(known={U: NO_TABLE})

    assert log.run("CREATE TABLE IF NOT EXISTS t (id INT)") == []
    assert [type(each) for each in log.run("CREATE TABLE IF NOT EXISTS u (id INT)")] == [
        CreateTable
    ]
    assert log.run("CREATE TABLE IF NOT EXISTS u (id INT)") == []


def test_a_dropped_database_ends_all_of_its_tables() -> None:
    log = Log(known={U: TableState("0" * 16, U), ("crm", "x"): TableState("1" * 16, ("crm", "x"))})
    log.rows(T, "id int")
    table = log.state(T).id

    assert log.run("CREATE TABLE IF NOT EXISTS v (id INT)") == []

    assert log.run("DROP DATABASE shop") == [DropTable(table, T), DropTable("0" * 16, U)]
    for name in ("v", "other"):
        (created,) = log.run(f"CREATE TABLE IF NOT EXISTS {name} (id INT)")
        assert isinstance(created, CreateTable)
    # What was known is not searched again.
    log.known["shop", "w"] = TableState("1" * 16, ("shop", "w"))
    dropped = log.run("DROP DATABASE shop")
    assert [each.name for each in dropped if isinstance(each, DropTable)] == [
        ("shop", "other"),
        ("shop", "v"),
    ]


def test_a_table_that_comes_from_outside_is_another_one() -> None:
    log = a_table()
    table = log.state(T).id

    (left,) = log.run("RENAME TABLE t TO other.t")
    (came,) = log.run("RENAME TABLE other.t TO t")

    assert left.table == table
    assert came.table != table
    assert log.state(T).schema is None


def test_a_table_made_of_a_partition_has_rows() -> None:
    log = Log(session=Session(Flavor.MARIADB, "shop"))
    log.rows(T, "id int")

    actions = log.run("ALTER TABLE t CONVERT PARTITION p TO TABLE u")

    made = log.state(U)
    assert next(each for each in actions if each.table == made.id) == CreateTable(made.id, U)
    assert any(isinstance(each, RewriteRows) and each.table == made.id for each in actions)
    assert made.created is None
    assert any(isinstance(each, RewriteRows) and each.table != made.id for each in actions)


@pytest.mark.parametrize("known", [{}, {U: NO_TABLE}], ids=["unknown", "dropped"])
def test_a_table_that_is_not_there_is_not_renamed(known: dict[TableName, NoTable]) -> None:
    log = Log(known=dict(known), session=Session(Flavor.MARIADB, "shop"))
    log.rows(T, "id int")

    assert log.run("RENAME TABLE IF EXISTS u TO t") == []


def test_truncation_changes_no_schema() -> None:
    log = a_table()
    state = log.state(T)

    assert log.run("TRUNCATE t") == [TruncateTable(state.id)]
    assert log.state(T) == state


def test_tables_that_are_not_captured_are_not_followed() -> None:
    log = Log()

    assert log.run("CREATE TABLE crm.x (id INT)") == []
    assert log.run("RENAME TABLE crm.x TO crm.y") == []
    assert log.run("DROP TABLE crm.y") == []
    assert log.tables.touched == {}


def test_ids_go_by_where_a_table_begins_alone() -> None:
    one, other = Log(), Log()
    one.rows(T, "id int")
    other.rows(T, "id int")
    other.run("ALTER TABLE t ADD c INT")

    assert one.state(T).id == other.state(T).id


# ------------------------------------------------------------------- against a plain model


class Column:
    """A column: itself, whatever its name."""

    def __init__(self, name: str) -> None:
        self.name = name


class Table:
    """A table: itself, whatever its name."""

    def __init__(self, *columns: str) -> None:
        self.columns = [Column(name) for name in columns]

    def column(self, name: str) -> Column:
        return next(each for each in self.columns if each.name == name)


NAMES, COLUMNS = ["t", "u", "v"], ["a", "b", "c", "d"]


class Model:
    """A server, as slow and plain as can be, beside what follows its log."""

    def __init__(self) -> None:
        self.log = Log()
        self.tables: dict[str, Table] = {}
        self.ids: dict[Table, str] = {}
        self.fields: dict[Column, tuple[str, int]] = {}
        # What a reader has that knows nothing but actions, after the first rows of a table.
        self.names: dict[str, TableName] = {}
        self.lake: dict[str, dict[int, str]] = {}

    def run(self, sql: str) -> None:
        self.fold(self.log.run(sql))

    def fold(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, CreateTable):
                self.names[action.table] = action.name
            elif isinstance(action, DropTable):
                self.names.pop(action.table)
                self.lake.pop(action.table, None)
            elif isinstance(action, RenameTable):
                assert self.names[action.table] == action.old
                self.names[action.table] = action.new
            elif action.table in self.lake:
                self.fold_field(self.lake[action.table], action)

    def fold_field(self, fields: dict[int, str], action: Action) -> None:
        if isinstance(action, AddField):
            assert action.field not in fields
            fields[action.field] = action.name
        elif isinstance(action, DropField):
            assert fields.pop(action.field) == action.name
        elif isinstance(action, RenameField):
            assert fields[action.field] == action.old
            fields[action.field] = action.new
        assert not isinstance(action, RewriteRows), action

    def create(self, name: str, columns: list[str]) -> None:
        if name in self.tables:
            return
        self.tables[name] = Table("id", *columns)
        listed = ", ".join(f"{each} INT" for each in ["id", *columns])
        self.run(f"CREATE TABLE {name} ({listed})")

    def drop(self, name: str) -> None:
        if self.tables.pop(name, None) is not None:
            self.run(f"DROP TABLE {name}")

    def rename(self, pairs: list[tuple[str, str]]) -> None:
        after = dict(self.tables)
        done = []
        for old, new in pairs:
            if old in after and new not in after:
                after[new] = after.pop(old)
                done.append(f"{old} TO {new}")
        self.tables = after
        if done:
            self.run(f"RENAME TABLE {', '.join(done)}")

    def alter(self, name: str, drop: set[str], rename: dict[str, str], add: list[str]) -> None:
        table = self.tables.get(name)
        if table is None:
            return
        own = [each.name for each in table.columns]
        drop &= set(own)
        rename = {a: b for a, b in rename.items() if a in own and a not in drop and a != b}
        kept = [each for each in table.columns if each.name not in drop]
        renamed = {each: rename.get(each.name, each.name) for each in kept}
        if len(set(renamed.values())) < len(kept):
            return
        taken = set(renamed.values())
        add = [each for each in dict.fromkeys(add) if each not in taken]
        parts = [f"DROP COLUMN {each}" for each in sorted(drop)]
        parts += [f"RENAME COLUMN {a} TO {b}" for a, b in rename.items()]
        parts += [f"ADD COLUMN {each} INT FIRST" for each in add]
        for each in kept:
            each.name = renamed[each]
        table.columns = [*map(Column, reversed(add)), *kept]
        if parts:
            self.run(f"ALTER TABLE {name} {', '.join(parts)}")

    def rows(self, name: str) -> None:
        table = self.tables.get(name)
        if table is None:
            return
        columns = [f"{each.name} int" for each in table.columns]
        key = 1 + [each.name for each in table.columns].index("id")
        # `id` stands for the unique key which the server takes in place of a primary one.
        actions = self.log.rows(("shop", name), *columns, key=key)
        state = self.log.state(("shop", name))
        assert all(isinstance(each, SetKey) for each in actions)
        assert state.schema is not None
        if state.id not in self.lake:
            self.lake[state.id] = {each.id: each.name for each in state.schema.fields}
        self.names.setdefault(state.id, ("shop", name))

    def check(self) -> None:
        for name, table in self.tables.items():
            state = self.log.state(("shop", name))
            assert self.ids.setdefault(table, state.id) == state.id
            assert state.schema is not None
            assert [each.name for each in state.schema.fields] == [
                each.name for each in table.columns
            ]
            for column, known in zip(table.columns, state.schema.fields, strict=True):
                of = state.id, known.id
                assert self.fields.setdefault(column, of) == of
            if state.id in self.lake:
                assert self.lake[state.id] == {each.id: each.name for each in state.schema.fields}
        assert len(set(self.ids.values())) == len(self.ids)
        assert len(set(self.fields.values())) == len(self.fields)
        live = {self.ids[table]: ("shop", name) for name, table in self.tables.items()}
        assert live == self.names


names, columns = st.sampled_from(NAMES), st.sampled_from(COLUMNS)
steps = st.one_of(
    st.tuples(st.just("create"), names, st.lists(columns, unique=True)),
    st.tuples(st.just("drop"), names),
    st.tuples(st.just("rename"), st.lists(st.tuples(names, names), min_size=1, max_size=3)),
    st.tuples(
        st.just("alter"),
        names,
        st.sets(columns),
        st.dictionaries(columns, columns),
        st.lists(columns),
    ),
    st.tuples(st.just("rows"), names),
)


@given(st.lists(steps, max_size=30))
def test_identity_is_that_of_the_tables_and_columns_themselves(
    history: list[tuple[object, ...]],
) -> None:
    model = Model()
    for verb, *arguments in history:
        getattr(model, str(verb))(*arguments)
        model.check()


def test_a_state_is_read_back_from_a_schema() -> None:
    log = a_table()
    state = log.state(T)
    later = Log(known={T: state})

    assert later.rows(T, "id int", "a int", "b int") == []
    assert later.state(T) == state
    assert not next(iter(later.tables.touched.values())).changed
    assert isinstance(state.schema, Schema)
