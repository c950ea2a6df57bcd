"""Tables as a server's information_schema describes them, and the position of that description.

A table that was read from cannot be altered until the transaction ends: so the tables are read
from first, no row of them, and information_schema is then valid at the end of the log.

MySQL prints the default of a column bare where it is a literal, and marks an expression in EXTRA;
MariaDB prints SQL. Both print in utf8mb3: a character that it lacks is printed as `?`.

Source: MySQL 9.7 reference manual, 10.11.4 Metadata Locking, and 28.3; mysql-server,
sql/dd/dd_table.cc, prepare_default_value_string; mariadb, sql/sql_show.cc, get_field_default_value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pymysql.constants import ER

from airflow_provider_binlog import errors
from airflow_provider_binlog.names import fold_name, quote_identifier
from airflow_provider_binlog.position import Flavor, Position
from airflow_provider_binlog.schema import NULL, Default, TableName
from airflow_provider_binlog.sql import columns as sql_columns
from airflow_provider_binlog.sql import defaults
from airflow_provider_binlog.sql.columns import Facts, Key, PartialColumn, PartialSchema, SqlType
from airflow_provider_binlog.sql.defaults import Literal, LiteralKind, read_literal
from airflow_provider_binlog.sql.definitions import table_comment
from airflow_provider_binlog.sql.lexer import STRICT_ALL_TABLES, Session, split_words
from airflow_provider_binlog.transport.server import driver
from airflow_provider_binlog.transport.server.driver import Connection, Row, driver_errors, query
from airflow_provider_binlog.transport.server.queries import ServerVersion, log_end, server_version

_TABLES_PER_QUERY = 200
_TABLES = """
    SELECT TABLE_SCHEMA AS `database`, TABLE_NAME AS name, TABLE_TYPE AS kind
    FROM information_schema.TABLES"""
_ENGINES = """
    SELECT t.TABLE_SCHEMA AS `database`, t.TABLE_NAME AS name, t.TABLE_TYPE AS kind,
        t.ENGINE AS engine, e.TRANSACTIONS AS transactions
    FROM information_schema.TABLES t LEFT JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE
    WHERE t.TABLE_SCHEMA IN %s AND t.TABLE_NAME IN %s"""
_COLUMNS = """
    SELECT TABLE_SCHEMA AS `database`, TABLE_NAME AS `table`, COLUMN_NAME AS name,
        DATA_TYPE AS data_type, COLUMN_TYPE AS column_type, IS_NULLABLE AS nullable,
        CHARACTER_SET_NAME AS charset, CHARACTER_OCTET_LENGTH AS octets, EXTRA AS extra,
        COLUMN_DEFAULT AS printed, COLUMN_COMMENT AS comment
    FROM information_schema.COLUMNS WHERE TABLE_SCHEMA IN %s AND TABLE_NAME IN %s
    ORDER BY ORDINAL_POSITION"""
_COMMENTS = """
    SELECT TABLE_SCHEMA AS `database`, TABLE_NAME AS `table`, TABLE_COMMENT AS comment
    FROM information_schema.TABLES WHERE TABLE_SCHEMA IN %s AND TABLE_NAME IN %s"""
# As SHOW INDEX names its columns; but the indexes of a table come in no order.
_UNIQUE_INDEXES = """
    SELECT TABLE_SCHEMA AS `database`, TABLE_NAME AS `table`, INDEX_NAME AS Key_name,
        COLUMN_NAME AS Column_name, SUB_PART AS Sub_part, INDEX_TYPE AS Index_type
    FROM information_schema.STATISTICS
    WHERE TABLE_SCHEMA IN %s AND TABLE_NAME IN %s AND NON_UNIQUE = 0 ORDER BY SEQ_IN_INDEX"""
_LOCK_WAIT_SECONDS = 30

LOCKED = frozenset({ER.LOCK_WAIT_TIMEOUT, ER.LOCK_DEADLOCK})
"""Errors of a session that waits for a lock. The second one ends its transaction, too."""

_SYSTEM = ("information_schema", "performance_schema")
# Character sets with characters that utf8mb3 does not hold, in which types are printed: as `?`.
_BEYOND_UTF8MB3 = frozenset({"utf8mb4", "utf16", "utf16le", "utf32", "gb18030"})
_VERSIONED = "SYSTEM VERSIONED"
_KINDS = ("BASE TABLE", "SEQUENCE", _VERSIONED)


@dataclass(frozen=True)
class ServerTables:
    """Tables as they are at a position: after every event before it.

    Attributes:
        tables: A table that was queried, and is neither among them nor refused, does not exist
            there, as far as the account sees.
        versioned: Those of them that keep previous rows too, `WITH SYSTEM VERSIONING`.
        refused: Why queried tables are missing: a privilege is, or the table is broken.
    """

    position: Position
    tables: dict[TableName, PartialSchema]
    versioned: frozenset[TableName] = frozenset()
    refused: dict[TableName, str] = field(default_factory=dict)


@driver_errors()
def read_server_tables(
    connection: Connection,
    names: Collection[TableName],
    excluded: Callable[[TableName], Collection[str]] = lambda _: (),
) -> ServerTables:
    """Return the tables of these names as information_schema describes them.

    Nobody can alter them meanwhile; readers and writers are not disturbed. The connection is in no
    transaction. The columns of a table that are `excluded`, by folded names, are not selected.
    A table that is created or renamed meanwhile may be missing.

    Raises:
        TableLockedError: Another session held a table for too long.
        SourceError: The server refused, not on account of one table.
    """
    query(connection, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    prepare_session(connection)
    query(connection, "START TRANSACTION READ ONLY")
    with driver.ended_by(connection, "ROLLBACK"):
        held: set[TableName] = set()
        refused: dict[TableName, str] = {}
        kinds = read_kinds(connection, names)
        for name in sorted(name for name, kind in kinds.items() if kind.type in _KINDS):
            try:
                if hold_table(connection, name, excluded(name)):
                    held.add(name)
            except errors.SourceError as error:
                if error.retryable:
                    raise
                # It may not be read, or is broken, or its database was dropped just now.
                refused[name] = (
                    "its columns are unknown, since the server refuses a SELECT from it: "
                    f"{error.args[0]}"
                )
        position = log_end(connection)
        tables = _read_tables(connection, held, server_version(connection))
        versioned = frozenset(name for name in tables if kinds[name].type == _VERSIONED)
        return ServerTables(position, tables, versioned, refused)


def prepare_session(connection: Connection) -> None:
    """Let a session see all columns, and not wait long for a table that another one has locked."""
    query(connection, f"SET SESSION lock_wait_timeout = {_LOCK_WAIT_SECONDS}")
    of = server_version(connection)
    if of.flavor is Flavor.MYSQL and of.version >= (8, 0, 30):
        # In the log, a generated invisible primary key is a column like any other.
        query(connection, "SET SESSION show_gipk_in_create_table_and_information_schema = ON")


@driver_errors()
def list_tables(connection: Connection) -> dict[TableName, str]:
    """Return the users' tables that the account sees, without views, and the type of each."""
    return {
        (str(row["database"]), str(row["name"])): str(row["kind"])
        for row in query(connection, _TABLES)
        if row["kind"] in _KINDS and str(row["database"]).lower() not in _SYSTEM
    }


class TableKind(NamedTuple):
    """Type of a table, and its engine.

    Attributes:
        type: Its TABLE_TYPE.
        engine: Empty for a view.
        has_transactions: False only where the server says so.
    """

    type: str
    engine: str
    has_transactions: bool


@driver_errors()
def read_kinds(connection: Connection, names: Collection[TableName]) -> dict[TableName, TableKind]:
    """Return the kinds of those of the tables, or views, that the account sees."""
    return {
        name: TableKind(str(row["kind"]), str(row["engine"] or ""), row["transactions"] != "NO")
        for some, chosen in _batches(names)
        for row in query(connection, _ENGINES, *chosen)
        if (name := (str(row["database"]), str(row["name"]))) in some
    }


def describe_tables(connection: Connection) -> str:
    """Return how many tables the account sees, and what to do if it sees none."""
    if count := len(list_tables(connection)):
        return f"{count}, as far as the account sees"
    return "none that the account sees: GRANT SELECT ON the captured tables, for snapshots"


def hold_table(connection: Connection, name: TableName, excluded: Collection[str] = ()) -> bool:
    """Read no row from a table, so that nobody alters it before the transaction ends.

    All columns are selected but the `excluded` ones, by folded names: information_schema lacks
    those that the account may not read. And not from the query cache, whose answer holds nothing.
    Returns False if there is no such table.

    Raises:
        AccessDeniedError: The account may not read from it, or not all these columns.
        TableLockedError: Another session held it for too long.
    """
    selected = _select_without(connection, name, excluded) if excluded else "*"
    statement = f"SELECT SQL_NO_CACHE {selected} FROM {quote_table(name)} LIMIT 0"  # noqa: S608
    try:
        query(connection, statement)
    except errors.AccessDeniedError:
        raise
    except errors.SourceError as error:
        code = error.context.get("code")
        if code == ER.NO_SUCH_TABLE:
            return False
        if code == ER.BAD_FIELD_ERROR:
            raise errors.TableAlteredError(
                "a table was altered while its columns were listed", table=".".join(name)
            ) from error
        if code in LOCKED:
            raise errors.TableLockedError(
                "a table cannot be read: another session holds it with LOCK TABLES, or waits to "
                "alter it",
                table=".".join(name),
                seconds=_LOCK_WAIT_SECONDS,
            ) from error
        raise
    return True


def _select_without(connection: Connection, name: TableName, excluded: Collection[str]) -> str:
    """Return what selects all columns of a table that the account sees but the excluded ones.

    Raises:
        AccessDeniedError: There are others than excluded ones that it does not see.
    """
    rows = query(
        connection,
        "SELECT COLUMN_NAME AS name, ORDINAL_POSITION AS position FROM information_schema.COLUMNS"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION",
        *name,
    )
    names = [str(row["name"]) for row in rows]
    unseen = max((int(row["position"]) for row in rows), default=0) - len(names)
    if unseen > len({*excluded} - {*map(fold_name, names)}):
        raise errors.AccessDeniedError(
            "the account does not see all columns that are not excluded: GRANT SELECT on these, "
            "or REFERENCES on the table, by which it sees all columns, and reads none",
            table=".".join(name),
            seen=", ".join(names),
        )
    chosen = [quote_identifier(own) for own in names if fold_name(own) not in excluded]
    return ", ".join(chosen) or "1"


def read_table(connection: Connection, name: TableName, of: ServerVersion) -> PartialSchema | None:
    """Return a table that the connection holds, see `hold_table`; None if it shows no columns.

    Its key is the unique key that stands in for a missing primary key, too: the first one on whole
    columns without NULL; there may be none.
    """
    return _read_tables(connection, [name], of).get(name)


@driver_errors()
def list_keyless(connection: Connection, names: Collection[TableName]) -> list[TableName]:
    """Return those of the tables that have neither a primary key nor a unique key in its place."""
    prepare_session(connection)
    return find_keyless(_read_tables(connection, names, server_version(connection)))


def find_keyless(tables: Mapping[TableName, PartialSchema]) -> list[TableName]:
    """Return the names of those tables that have no key."""
    return sorted(
        name for name, schema in tables.items() if schema.key is None or not schema.key.columns
    )


def _read_tables(
    connection: Connection, names: Collection[TableName], of: ServerVersion
) -> dict[TableName, PartialSchema]:
    """Return the tables that show any columns."""
    tables: dict[TableName, PartialSchema] = {}
    for some, chosen in _batches(names):
        columns: dict[TableName, list[PartialColumn]] = defaultdict(list)
        indexes: dict[TableName, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
        for row in query(connection, _COLUMNS, *chosen):
            columns[row["database"], row["table"]].append(_column(row, of))
        for row in query(connection, _UNIQUE_INDEXES, *chosen):
            indexes[row["database"], row["table"]][row["Key_name"]].append(row)
        comments = {
            (row["database"], row["table"]): table_comment(row["comment"]) or None
            for row in query(connection, _COMMENTS, *chosen)
        }
        # Others may have a name that differs in case alone, or of a table in another database.
        for name in (name for name in some if name in columns):
            key = _read_key(connection, name, indexes[name], of)
            tables[name] = PartialSchema(tuple(columns[name]), *key, comments.get(name))
    return tables


def _batches(
    names: Collection[TableName],
) -> Iterator[tuple[list[TableName], tuple[list[str], list[str]]]]:
    """Yield the names in pieces for one query, and the databases and the tables of each piece."""
    listed = sorted(names)
    for first in range(0, len(listed), _TABLES_PER_QUERY):
        some = listed[first : first + _TABLES_PER_QUERY]
        yield some, (sorted({database for database, _ in some}), [table for _, table in some])


def _read_key(
    connection: Connection, name: TableName, indexes: dict[str, list[Row]], of: ServerVersion
) -> tuple[Key, int]:
    """Return the key of a table, and how many of its unique keys are kept on hidden columns."""
    hidden = {key for key, rows in indexes.items() if rows[0]["Index_type"] == "HASH"}
    if hidden and not _hides_hashes(connection, name, of):
        hidden.clear()
    primary = indexes.pop("PRIMARY", [])
    key = tuple((str(row["Column_name"]), int(row["Sub_part"] or 0)) for row in primary)
    if not primary and indexes:
        key = _first_unique(unique_indexes(connection, name), hidden)
    return Key(key, primary=bool(primary), others=bool(indexes)), len(hidden)


def unique_indexes(connection: Connection, name: TableName) -> dict[str, list[Row]]:
    """Return the rows of SHOW INDEX about the unique indexes of a table, in the server's order."""
    indexes: dict[str, list[Row]] = defaultdict(list)
    for row in query(connection, f"SHOW INDEX FROM {quote_table(name)}"):
        if not int(row["Non_unique"]):
            indexes[str(row["Key_name"])].append(row)
    return indexes


def _hides_hashes(connection: Connection, name: TableName, of: ServerVersion) -> bool:
    """Whether the keys that are called HASH are kept on hidden columns, as MariaDB does.

    A MEMORY table has ordinary ones. Source: mariadb, sql/sql_table.cc, mysql_prepare_create_table.
    """
    kinds = read_kinds(connection, [name]).values()
    return of.flavor is Flavor.MARIADB and all(kind.engine != "MEMORY" for kind in kinds)


def _first_unique(
    indexes: Mapping[str, list[Row]], hidden: Collection[str]
) -> tuple[tuple[str, int], ...]:
    """Return the unique key that the server takes for the primary one; maybe none.

    One on a hidden column is none. Source: sql/table.cc, open_table_from_share;
    sql/dd_table_share.cc.
    """
    for key, rows in indexes.items():
        whole = all(row["Column_name"] and row["Sub_part"] is None for row in rows)
        if whole and not any(row["Null"] == "YES" for row in rows) and key not in hidden:
            return tuple((str(row["Column_name"]), 0) for row in rows)
    return ()


def _column(row: Row, of: ServerVersion) -> PartialColumn:
    data_type, extra = str(row["data_type"]).lower(), str(row["extra"] or "")
    hints = extra.upper()
    charset = _charset(data_type, row["charset"])
    printed = sql_columns.parse_type(str(row["column_type"]), escapes=True, charset=charset)
    own = printed or SqlType(data_type, charset=charset)
    own = replace(own, values=_values(own.values, charset))
    facts = Facts(
        data_type=own.name if own.name == sql_columns.YEAR_OF_TWO_DIGITS else data_type,
        nullable=row["nullable"] == "YES",
        unsigned=own.unsigned,
        charset=charset,
        values=own.values,
        octets=None if row["octets"] is None else int(row["octets"]),
        precision=own.length if data_type in ("decimal", "bit") else None,
        scale=own.scale if data_type == "decimal" else None,
        fsp=own.fsp if data_type in sql_columns.TEMPORALS else None,
        dimension=own.length if data_type == "vector" else None,
        compressed=own.compressed or None,
        generated="GENERATED" in hints.replace("DEFAULT_GENERATED", ""),
        auto_increment="AUTO_INCREMENT" in hints,
        visible="INVISIBLE" not in hints,
        comment=row["comment"] or None,
    )
    default = None if row["printed"] is None else str(row["printed"])
    facts = replace(facts, default=read_default(own, facts, default, extra, of))
    return PartialColumn(str(row["name"]), facts)


def _charset(data_type: str, charset: str | None) -> str | None:
    if charset is None:
        holds_bytes = data_type in sql_columns.BYTES | sql_columns.OWN_FORM | sql_columns.ENUMS
        return "binary" if holds_bytes else None
    return "utf8mb3" if charset == "utf8" else str(charset)


def _values(printed: tuple[str, ...] | None, charset: str | None) -> tuple[str, ...] | None:
    """Return the values of an ENUM or SET; None if some may have lost characters."""
    lost = charset in _BEYOND_UTF8MB3 and any("?" in value for value in printed or ())
    return None if lost else printed


def quote_table(name: TableName) -> str:
    """Return the name as SQL takes it."""
    return ".".join(map(quote_identifier, name))


# Before, MariaDB printed literals bare, and expressions no differently.
_PRINTS_SQL = (10, 2, 7)

_NUMBERS = frozenset({*sql_columns.INTEGERS, "decimal", "year"})
_TEXTS = frozenset({*sql_columns.STRINGS, *sql_columns.TEXTS, *sql_columns.ENUMS})
_READ = _NUMBERS | _TEXTS | {"date", "datetime", "time"}


def read_default(
    own: SqlType, column: Facts, printed: str | None, extra: str, of: ServerVersion
) -> Default | None:
    """Return what an insert leaves in a column that it does not name; None if that is not certain.

    `own` is its type, `printed` its COLUMN_DEFAULT, `extra` its EXTRA.
    """
    if column.generated or "DEFAULT_GENERATED" in extra.upper():
        return None
    utf8 = "utf8mb4"
    session = Session(
        of.flavor, sql_mode=STRICT_ALL_TABLES, connection_charset=utf8, client_charset=utf8
    )
    if of.flavor is Flavor.MARIADB:
        if of.version < _PRINTS_SQL or printed is None:
            return None
        literal = _literal(printed, session)
    elif printed is None:
        literal = Literal(LiteralKind.NULL)
    else:
        is_number = column.data_type in _NUMBERS
        literal = Literal(LiteralKind.NUMBER if is_number else LiteralKind.STRING, printed)
    if literal.kind is LiteralKind.NULL:
        return NULL if column.nullable else None
    if column.data_type not in _READ or (
        column.data_type in _TEXTS and not _is_exact(column, literal)
    ):
        return None
    default = defaults.read_default(own, literal, session)
    return default if isinstance(default, Default) else None


def _literal(printed: str, session: Session) -> Literal:
    try:
        # Without `sql_mode`: what a backslash is here is not certain.
        return read_literal(split_words(printed, Session(session.flavor)))
    except errors.UnsupportedError:
        return Literal(LiteralKind.EXPRESSION)


def _is_exact(column: Facts, literal: Literal) -> bool:
    is_text = literal.kind is LiteralKind.STRING and column.charset not in (None, "binary")
    return is_text and "?" not in literal.text
