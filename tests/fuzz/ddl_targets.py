"""The readers of DDL under test, and what is made of tables by what they read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from random import Random

from airflow_provider_binlog.binlog.events.statements import Query
from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.errors import BinlogError, UnsupportedError
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema_history.partial_schemas import TrackedSchemas, alter
from airflow_provider_binlog.schema_history.statements import LoggedChange, changes_of
from airflow_provider_binlog.sql.columns import (
    Facts,
    Key,
    PartialColumn,
    PartialSchema,
    SqlType,
    parse_type,
)
from airflow_provider_binlog.sql.ddl import Altered, Created, TableChange, read_ddl
from airflow_provider_binlog.sql.defaults import read_default
from airflow_provider_binlog.sql.definitions import AddColumn, Alteration, ChangeColumn, SetDefault
from airflow_provider_binlog.sql.lexer import (
    ANSI_QUOTES,
    NO_BACKSLASH_ESCAPES,
    Session,
    mask_literals,
)
from airflow_provider_binlog.sql.type_changes import rewrites, rewrites_column
from tests.fuzz import seeds
from tests.fuzz.identity_target import run_identity
from tests.fuzz.mutate import mutate
from tests.fuzz.targets import Target, Wrong, check_text
from tests.support.statements import a_statement

_MODES = (0, NO_BACKSLASH_ESCAPES, ANSI_QUOTES, None)
_TYPES = (
    *(SqlType("int"), SqlType("decimal", 10, 2), SqlType("varchar", 9, charset="latin1")),
    *(SqlType("enum", values=("a", "b")), SqlType("datetime", fsp=3), SqlType("bit", 8)),
)
_DATABASE = "shop"

_CHARACTERS_MAX = 3000
_STATEMENTS_MAX = 6
_END = ";\n"


def _schema(*names: str) -> PartialSchema:
    """Return a schema of which all is known."""
    texts = Facts("varchar", False, False, "latin1", None, 40, None, None, None, False, True)
    numbers = Facts("int", False, True, "binary", None, 4, 10, 0, None, False, True)
    enums = Facts("enum", True, False, "utf8mb4", ("a", "b"), 1, None, None, None, False, True)
    kinds = (numbers, texts, enums)
    columns = (PartialColumn(name, kinds[index % 3]) for index, name in enumerate(names))
    return PartialSchema(tuple(columns), Key(((names[0], 0),), primary=True, others=False))


SCHEMAS = (
    _schema("id", "a", "b", "c", "d"),
    _schema("id"),
    _schema("my_row_id", "a", "first", "after", "B", "índex", "a b", "`"),
)


def _text(data: bytes) -> str:
    return data.decode(errors="replace")[:_CHARACTERS_MAX]


def _read(sql: str, flavor: Flavor, mode: int | None) -> tuple[TableChange, ...]:
    """Return what a statement changes; nothing if it is refused, as it may be."""
    try:
        logged = a_statement(sql, flavor=flavor, database=_DATABASE, sql_mode=mode)
        return tuple(each.change for each in changes_of(logged))
    except UnsupportedError as error:
        check_text(error)
        session = Session(flavor, _DATABASE, sql_mode=mode)
        if error.context.get("statement") != mask_literals(sql, session):
            raise Wrong(f"an error that does not say its statement: {error}") from error
    return ()


# ------------------------------------------------------------------------------ statements


def run_alterations(data: bytes) -> None:
    """Read a statement, and what it says of values: their types, defaults and changes."""
    sql = _text(data)
    for flavor in Flavor:
        for mode in _MODES:
            session = Session(flavor, _DATABASE, mode, True, "utf8mb4", "utf8mb4")
            try:
                ddl = read_ddl(sql, session)
            except UnsupportedError as error:
                check_text(error)
                continue
            for change in ddl.changes if ddl else ():
                if isinstance(change, Altered):
                    for each in change.alterations:
                        _read_values(each, session)


def _read_values(alteration: Alteration, session: Session) -> None:
    if isinstance(alteration, SetDefault) and alteration.default is not None:
        for of in _TYPES:
            read_default(of, alteration.default, session)
    elif isinstance(alteration, AddColumn | ChangeColumn):
        own = alteration.definition.type
        for of in _TYPES:
            rewrites_column(of, alteration.definition, session, nullable=True)
            rewrites(own, of, session)
        if own is not None and parse_type(str(own), charset=own.charset) != own:
            raise Wrong(f"a type that does not survive being printed: {own!r}")


def run_ddl(data: bytes) -> None:
    """Read a statement, and apply what it does to schemas."""
    sql = _text(data)
    for flavor in Flavor:
        seen = set()
        for mode in _MODES:
            changes = _read(sql, flavor, mode)
            if changes in seen:
                continue
            seen.add(changes)
            for change in changes:
                if isinstance(change, Altered):
                    for schema in SCHEMAS:
                        _check(alter(schema, change.alterations))
                elif isinstance(change, Created) and change.elements is not None:
                    alter(PartialSchema((), None), change.elements)


def _check(schema: PartialSchema | None) -> None:
    """Refuse a schema with two columns of one name."""
    if schema is not None and len({name.lower() for name in schema.names}) != len(schema.columns):
        raise Wrong(f"two columns of one name: {schema.names}")


# --------------------------------------------------------------------------------- history


def run_history(data: bytes) -> None:
    """Follow tables through some statements."""
    statements = _text(data).split(_END)[:_STATEMENTS_MAX]
    run_identity(statements, 0)
    for flavor in Flavor:
        schemas = TrackedSchemas(lambda name: SCHEMAS[0] if name[1] in ("t", "u") else None)
        for row, sql in enumerate(statements):
            for change in _read(sql, flavor, 0):
                schemas.apply(LoggedChange(row, "binlog.000001", 4 + row, change), flavor)
            for name in "tuv":
                _check(schemas.find((_DATABASE, name)))


# ---------------------------------------------------------------------------------- damage

_TOKEN = re.compile(r"\w+|\s+|'[^']*'|`[^`]*`|.", re.DOTALL)
_WORDS = (
    *("ADD", "ALTER", "AFTER", "AS", "CHANGE", "CHARACTER SET", "COLLATE", "COLUMN", "COMMENT"),
    *("CONSTRAINT", "CONVERT", "CREATE", "DEFAULT", "DROP", "EXCHANGE", "EXISTS", "FIRST", "FOR"),
    *("FOREIGN", "GENERATED", "IF", "IF NOT EXISTS", "IGNORE", "INDEX", "KEY", "LIKE", "MODIFY"),
    *("NOT NULL", "NOWAIT", "ORDER BY", "PARTITION", "PARTITION BY", "PERIOD", "PRIMARY KEY"),
    *("REMOVE PARTITIONING", "RENAME", "REPLACE", "SELECT", "SERIAL", "SET STATEMENT", "SYSTEM"),
    *("TABLE", "TEMPORARY", "TO", "UNIQUE", "VALUES", "VERSIONING", "WAIT", "WITH", "int", "enum"),
    *("a", "b", "id", "my_row_id", "t", "u", "v", "shop", "5", "10", "²", "x'41'", "ſet", "`ß`"),
    *("(", ")", "()", ",", ";", ".", "=", "`", "'", '"', "\\", "/*", "*/", "/*!50000 ", "/*M!"),
    *("-- ", "#", "\n", "\0", "\ufffd", "İ"),
)
_ROUNDS = (1, 1, 1, 2, 2, 3, 5)


def mutate_sql(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Damage characters, or leave out, repeat, exchange and put in words."""
    if random.random() < 0.25:
        return mutate(random, data, others)
    tokens = _TOKEN.findall(_text(data)) or [""]
    other = _TOKEN.findall(_text(random.choice(others))) or [""]
    for _ in range(random.choice(_ROUNDS)):
        at, size = random.randrange(len(tokens) + 1), random.choice((1, 1, 2, 4, 9))
        index = random.randrange(len(other))
        match random.randrange(7):
            case 0:
                del tokens[at : at + size]
            case 1:
                tokens[at:at] = tokens[at : at + size] * random.choice((1, 1, 3, 40))
            case 2:
                tokens[at:at] = other[index : index + size]
            case 3:
                tokens[at:] = other[index:]
            case 4:
                tokens[at : at + 1] = [random.choice(_WORDS)]
            case _:
                tokens[at:at] = [" ", random.choice(_WORDS), " "]
    return "".join(tokens)[:_CHARACTERS_MAX].encode()


def mutate_statements(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Damage one of some statements, leave one out, or put one in."""
    statements = _text(data).split(_END)
    index = random.randrange(len(statements))
    kind = random.random()
    if kind < 0.2 and len(statements) > 1:
        del statements[index]
    elif kind < 0.5:
        statements.insert(index, _text(random.choice(ddl())))
    else:
        statements[index] = _text(mutate_sql(random, statements[index].encode(), others))
    return _END.join(statements).encode()


# ----------------------------------------------------------------------------------- seeds

_ALTERATIONS = (
    "ADD COLUMN e decimal(10,2) UNSIGNED NOT NULL DEFAULT 0.00 AFTER a",
    "ADD e enum('x','y, z') CHARACTER SET latin1 FIRST, ADD (f int, g text, KEY (f))",
    "ADD COLUMN IF NOT EXISTS b int, DROP COLUMN IF EXISTS zz",
    "DROP COLUMN b, DROP c, DROP d",
    "CHANGE a z varchar(10) COLLATE utf8mb4_bin AFTER c, MODIFY b bigint FIRST",
    "MODIFY COLUMN IF EXISTS c inet6, CHANGE IF EXISTS a a2 vector(3)",
    "RENAME COLUMN a TO b, RENAME COLUMN b TO a, RENAME INDEX i TO j",
    "RENAME TO u, ADD e int /*!80023 INVISIBLE */",
    "DROP PRIMARY KEY, ADD PRIMARY KEY (a(10), b DESC), ADD UNIQUE KEY u (c)",
    "ADD CONSTRAINT p PRIMARY KEY USING BTREE (`a`), DROP INDEX `PRIMARY`",
    "CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci",
    "ALTER COLUMN a SET DEFAULT 'it''s \\' 5', ALTER b DROP DEFAULT, ALTER INDEX i INVISIBLE",
    "ENGINE=InnoDB, COMMENT='ADD b int', ORDER BY a, b DESC, ALGORITHM=INPLACE, LOCK=NONE",
    'ADD e int AS (a + 1) STORED UNIQUE KEY COMMENT "x" AFTER `a`',
    "PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (9), PARTITION q VALUES IN (1))",
    "EXCHANGE PARTITION p WITH TABLE u WITHOUT VALIDATION",
    "CONVERT PARTITION p TO TABLE v",
    "CONVERT TABLE v TO PARTITION p VALUES LESS THAN (9)",
    "ADD SYSTEM VERSIONING, ADD PERIOD FOR SYSTEM_TIME (a, b)",
    "ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES u (id) ON DELETE CASCADE, DROP FOREIGN KEY g",
    "WAIT 5 DROP b",
    "ADD e VARCHAR(9) CHARSET latin1 DEFAULT _latin1 x'41', ADD f BIT(9) DEFAULT b'101' NOT NULL",
    "ADD e DATETIME(3) DEFAULT '2024-01-01 00:00:00.5', ADD f TIME DEFAULT '-1:2:3', ADD g YEAR",
    "ADD e DECIMAL(5,2) DEFAULT -.5, ALTER a SET DEFAULT (1 + 1), ADD f FLOAT(7,3) DEFAULT 1e5",
    "DROP /*!50100 PARTITION */ p, q",
    "ENGINE=BLACKHOLE, UNION=(u, v)",
)
_STATEMENTS = (
    *(f"ALTER TABLE t {each}" for each in _ALTERATIONS),
    "ALTER ONLINE IGNORE TABLE IF EXISTS `shop`.t NOWAIT DROP b -- c\n",
    "SET STATEMENT max_statement_time=5 FOR ALTER TABLE t DROP b;",
    "CREATE TABLE t (id int AUTO_INCREMENT, `a b` text, PRIMARY KEY (id)) /* made */ COMMENT 'x'",
    "CREATE TABLE IF NOT EXISTS v (LIKE shop.t)",
    "CREATE TABLE t (a timestamp(6) DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6))",
    "CREATE OR REPLACE TABLE u (a serial, b set('x','y'), c point, CONSTRAINT CHECK (a > 1))",
    "CREATE TABLE u (d json, UNIQUE (b), FULLTEXT KEY (b)) PARTITION BY HASH (a)",
    "CREATE TABLE t (a int) AS SELECT 1 AS b",
    "CREATE TEMPORARY TABLE t (a int)",
    "CREATE UNIQUE INDEX i ON t (a) USING BTREE",
    "CREATE DATABASE IF NOT EXISTS crm",
    "CREATE SEQUENCE s START WITH 5",
    "DROP INDEX IF EXISTS `PRIMARY` ON t",
    "DROP TABLE IF EXISTS t, shop.`u` CASCADE /* generated by server */",
    "DROP DATABASE shop",
    "RENAME TABLE t TO _t_old, _t_gho TO t",
    "RENAME TABLE IF EXISTS t WAIT 3 TO v, u NOWAIT TO t",
    "TRUNCATE TABLE t",
    "IMPORT TABLE FROM '/tmp/t.sdi'",
)
_RUNS = (
    # As gh-ost does it.
    (
        "CREATE TABLE shop.v LIKE shop.t",
        "ALTER TABLE v ADD e int AFTER a, DROP b",
        "RENAME TABLE t TO w, v TO t",
        "DROP TABLE w",
    ),
    ("ALTER TABLE t DROP b", "ALTER TABLE t ADD b int FIRST", "ALTER TABLE t CHANGE c z text"),
    ("ALTER TABLE t RENAME TO v", "ALTER TABLE v DROP PRIMARY KEY", "RENAME TABLE v TO t"),
    ("DROP TABLE t", "CREATE TABLE t (id int PRIMARY KEY, a text)", "ALTER TABLE t DROP a"),
)


def _logged() -> Iterator[str]:
    """Yield the statements of the corpus."""
    for event in seeds.events():
        if event.header.type == EventType.QUERY:
            try:
                yield Query.parse(bytes(event.body), event.format).sql
            except BinlogError:
                continue


@cache
def ddl() -> tuple[bytes, ...]:
    """Return statements, from the corpus and of every form."""
    logged = (sql for sql in _logged() if sql != "BEGIN" and len(sql) < _CHARACTERS_MAX)
    return tuple(dict.fromkeys(sql.encode() for sql in (*_STATEMENTS, *logged)))


def _runs() -> Sequence[bytes]:
    return tuple(_END.join(run).encode() for run in _RUNS)


DDL_TARGETS = (
    Target("alterations", run_alterations, ddl, mutate_sql),
    Target("ddl", run_ddl, ddl, mutate_sql),
    Target("history", run_history, _runs, mutate_statements),
)
