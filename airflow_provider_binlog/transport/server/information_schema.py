"""Tables as a server's information_schema describes them, and the position of that description.

A table that was read from cannot be altered until the transaction ends: so the tables are read
from first, no row of them, and information_schema is then valid at the end of the log.

MySQL prints the default of a column bare where it is a literal, and marks an expression in EXTRA;
MariaDB prints SQL. Both print in utf8mb3: a character that it lacks is printed as `?`.

Source: MySQL 9.7 reference manual, 10.11.4 Metadata Locking, and 28.3; MariaDB documentation,
Metadata Locking, and Information Schema Tables; for defaults mysql-server, sql/dd/dd_table.cc,
prepare_default_value_string, mariadb, sql/sql_show.cc, get_field_default_value, and what MySQL 9.7
and MariaDB 10.11 and 11.8 print.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pymysql.constants import ER

from airflow_provider_binlog.errors import (
    AccessDeniedError,
    SourceError,
    TableLockedError,
)
from airflow_provider_binlog.names import quote_identifier
from airflow_provider_binlog.position import Flavor, Position
from airflow_provider_binlog.schema import NULL, Default
from airflow_provider_binlog.sql import defaults
from airflow_provider_binlog.sql.columns import (
    BYTES,
    ENUMS,
    INTEGERS,
    OWN_FORM,
    STRINGS,
    TEXTS,
    YEAR_OF_TWO_DIGITS,
    Facts,
    Key,
    PartialColumn,
    PartialSchema,
    SqlType,
    parse_type,
)
from airflow_provider_binlog.sql.lexer import STRICT_ALL_TABLES, Session, split_words
from airflow_provider_binlog.sql.literals import Literal, LiteralKind, read_literal
from airflow_provider_binlog.transport.server.driver import driver_errors, ended_by, query
from airflow_provider_binlog.transport.server.queries import log_end
from airflow_provider_binlog.transport.server.status import ServerVersion, server_version

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    import pymysql

    from airflow_provider_binlog.transport.server.driver import Row

    Connection = pymysql.Connection[Any]
    from airflow_provider_binlog.transport.server.status import ServerVersion

TableName = tuple[str, str]

# Queried one by one for so many tables of a database, for more as a whole.
_ONE_BY_ONE = 20
_ROUNDS_MAX = 10
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
        position: The position.
        tables: By database and name. A wanted table that is neither among them nor refused does
            not exist there, as far as the account sees.
        versioned: Those of them that keep previous rows too, `WITH SYSTEM VERSIONING`.
        refused: Why the columns of a wanted table are not among them: a privilege is missing, or
            the table is broken.
    """

    position: Position
    tables: dict[TableName, PartialSchema]
    versioned: frozenset[TableName] = frozenset()
    refused: dict[TableName, str] = field(default_factory=dict)


@driver_errors()
def read_server_tables(connection: Connection, wanted: Callable[[str, str], bool]) -> ServerTables:
    """Return the wanted tables as information_schema describes them.

    Nobody can alter them meanwhile; readers and writers are not disturbed.

    Args:
        connection: Closed by the caller; in no transaction.
        wanted: Whether a table is wanted, by database and name.

    Raises:
        TableLockedError: Another session held a table for too long.
        SourceError: The server refused, not on account of one table.
    """
    with _transaction(connection):
        held: set[TableName] = set()
        refused: dict[TableName, str] = {}
        # Tables created or renamed before all of them are held are found in the next round.
        for _ in range(_ROUNDS_MAX):
            kinds = {name: kind for name, kind in list_tables(connection).items() if wanted(*name)}
            if kinds.keys() <= held | refused.keys():
                break
            for name in sorted(kinds.keys() - held - refused.keys()):
                try:
                    if hold_table(connection, name):
                        held.add(name)
                except SourceError as error:
                    if error.retryable:
                        raise
                    # It may not be read, or is broken, or its database was dropped just now.
                    refused[name] = (
                        "its columns are unknown, since the server refuses a SELECT from it: "
                        f"{error.args[0]}"
                    )
        else:
            raise TableLockedError("tables are created and dropped too fast to be listed")
        position = log_end(connection)
        tables = read_tables(connection, held & kinds.keys())
        versioned = frozenset(name for name in tables if kinds.get(name) == _VERSIONED)
        return ServerTables(position, tables, versioned, refused)


@contextmanager
def _transaction(connection: Connection) -> Iterator[None]:
    query(connection, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    prepare_session(connection)
    query(connection, "START TRANSACTION READ ONLY")
    with ended_by(connection, "ROLLBACK"):
        yield


def prepare_session(connection: Connection) -> None:
    """Let a session see all columns, and not wait long for a table that another one has locked."""
    query(connection, f"SET SESSION lock_wait_timeout = {_LOCK_WAIT_SECONDS}")
    of = server_version(connection)
    if of.flavor is Flavor.MYSQL and of.version >= (8, 0, 30):
        # In the log, a generated invisible primary key is a column like any other.
        query(connection, "SET SESSION show_gipk_in_create_table_and_information_schema = ON")


@driver_errors()
def list_tables(connection: Connection) -> dict[TableName, str]:
    """Return the users' tables that the account sees, without views, and the type of each.

    Raises:
        SourceError: The server refused.
    """
    rows = query(
        connection,
        "SELECT TABLE_SCHEMA AS `database`, TABLE_NAME AS name, TABLE_TYPE AS kind"
        " FROM information_schema.TABLES",
    )
    return {
        (str(row["database"]), str(row["name"])): str(row["kind"])
        for row in rows
        if row["kind"] in _KINDS and str(row["database"]).lower() not in _SYSTEM
    }


def describe_tables(connection: Connection) -> str:
    """Return how many tables the account sees, and what to do if it sees none.

    Raises:
        SourceError: The server refused.
    """
    if count := len(list_tables(connection)):
        return f"{count}, as far as the account sees"
    return "none that the account sees: GRANT SELECT ON the captured tables, for snapshots"


def hold_table(connection: Connection, name: TableName) -> bool:
    """Read no row from a table, so that nobody alters it before the transaction ends.

    All columns are selected: information_schema lacks those that the account may not read. And not
    from the query cache, whose answer holds nothing.

    Returns False if there is no such table.

    Raises:
        AccessDeniedError: The account may not read from it, or not all columns.
        TableLockedError: Another session held it for too long.
        SourceError: The server refused.
    """
    try:
        query(connection, f"SELECT SQL_NO_CACHE * FROM {quote_table(name)} LIMIT 0")  # noqa: S608
    except AccessDeniedError:
        raise
    except SourceError as error:
        code = error.context.get("code")
        if code == ER.NO_SUCH_TABLE:
            return False
        if code in LOCKED:
            raise TableLockedError(
                "a table cannot be read: another session holds it with LOCK TABLES, or waits to "
                "alter it",
                table=".".join(name),
                seconds=_LOCK_WAIT_SECONDS,
            ) from error
        raise
    return True


def read_tables(
    connection: Connection, names: Collection[TableName]
) -> dict[TableName, PartialSchema]:
    """Return tables that the connection holds; see `hold_table`."""
    columns, keys = _columns(connection, names), _keys(connection, names)
    return {
        name: _table(connection, name, columns[name], keys.get(name, []))
        for name in sorted(names)
        if name in columns
    }


def _table(
    connection: Connection, name: TableName, columns: list[PartialColumn], keys: list[Row]
) -> PartialSchema:
    """Return a table, with the unique key that stands in for a missing primary key.

    That is the first one on whole columns without NULL; there may be none.
    """
    primary = [row for row in keys if row["key_name"] == "PRIMARY"]
    others = len(primary) < len(keys)
    hashes = {str(row["key_name"]) for row in keys if row["kind"] == "HASH"}
    if hashes and not _hides_hashes(connection, name):
        hashes.clear()
    key = _key(primary) or (_first_unique(connection, name, hashes) if others else ())
    table_key = Key(key, primary=bool(primary), others=others)
    return PartialSchema(tuple(columns), table_key, len(hashes))


def _key(rows: list[Row]) -> tuple[tuple[str, int], ...]:
    in_order = sorted(rows, key=lambda row: int(row["ordinal"]))
    return tuple((str(row["name"]), int(row["prefix"] or 0)) for row in in_order)


def _hides_hashes(connection: Connection, name: TableName) -> bool:
    """Whether the keys that are called HASH are kept on hidden columns, as MariaDB does.

    A MEMORY table has ordinary ones. Source: mariadb, sql/sql_table.cc, mysql_prepare_create_table.
    """
    engines = query(
        connection,
        "SELECT ENGINE AS engine FROM information_schema.TABLES"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        *name,
    )
    is_memory = any(row["engine"] == "MEMORY" for row in engines)
    return server_version(connection).flavor is Flavor.MARIADB and not is_memory


def _first_unique(
    connection: Connection, name: TableName, hidden: Collection[str]
) -> tuple[tuple[str, int], ...]:
    """Return the unique key that the server takes for the primary one; maybe none.

    SHOW INDEX lists them in the server's own order; one on a hidden column is none. Source:
    sql/table.cc, open_table_from_share; sql/dd_table_share.cc.
    """
    keys: dict[str, list[Row]] = defaultdict(list)
    for row in query(connection, f"SHOW INDEX FROM {quote_table(name)}"):
        if not int(row["Non_unique"]):
            keys[str(row["Key_name"])].append(row)
    for key, rows in keys.items():
        whole = all(row["Column_name"] and row["Sub_part"] is None for row in rows)
        if whole and not any(row["Null"] == "YES" for row in rows) and key not in hidden:
            return tuple((str(row["Column_name"]), 0) for row in rows)
    return ()


def _columns(
    connection: Connection, names: Collection[TableName]
) -> dict[TableName, list[PartialColumn]]:
    rows = rows_of_tables(
        connection,
        names,
        "SELECT TABLE_SCHEMA AS `database`, TABLE_NAME AS `table`, COLUMN_NAME AS name,"
        " DATA_TYPE AS data_type, COLUMN_TYPE AS column_type, IS_NULLABLE AS nullable,"
        " CHARACTER_SET_NAME AS charset, CHARACTER_OCTET_LENGTH AS octets,"
        " NUMERIC_PRECISION AS num_precision, NUMERIC_SCALE AS num_scale,"
        " DATETIME_PRECISION AS fsp, EXTRA AS extra, COLUMN_DEFAULT AS printed"
        " FROM information_schema.COLUMNS",
        order="ORDINAL_POSITION",
    )
    columns: dict[TableName, list[PartialColumn]] = defaultdict(list)
    of = server_version(connection)
    for row in rows:
        columns[row["database"], row["table"]].append(_column(row, of))
    return columns


def _column(row: Row, of: ServerVersion) -> PartialColumn:
    data_type, column_type = str(row["data_type"]).lower(), str(row["column_type"])
    extra = str(row["extra"] or "")
    hints = extra.upper()
    printed = parse_type(column_type, escapes=True)
    charset = _charset(data_type, row["charset"])
    facts = Facts(
        data_type=YEAR_OF_TWO_DIGITS if column_type == YEAR_OF_TWO_DIGITS else data_type,
        nullable=row["nullable"] == "YES",
        unsigned=printed is not None and printed.unsigned,
        charset=charset,
        values=None if printed is None else _values(printed.values, charset),
        octets=_number(row["octets"]),
        precision=_number(row["num_precision"]),
        scale=_number(row["num_scale"]),
        fsp=_number(row["fsp"]),
        dimension=printed.length if printed is not None and data_type == "vector" else None,
        compressed=True if printed is not None and printed.compressed else None,
        generated="GENERATED" in hints.replace("DEFAULT_GENERATED", ""),
        auto_increment="AUTO_INCREMENT" in hints,
        visible="INVISIBLE" not in hints,
    )
    default = None if row["printed"] is None else str(row["printed"])
    facts = replace(facts, default=read_default(facts, default, extra, of))
    return PartialColumn(str(row["name"]), facts)


def _charset(data_type: str, charset: str | None) -> str | None:
    if charset is None:
        holds_bytes = data_type in BYTES | OWN_FORM | ENUMS
        return "binary" if holds_bytes else None
    return "utf8mb3" if charset == "utf8" else str(charset)


def _values(printed: tuple[str, ...] | None, charset: str | None) -> tuple[str, ...] | None:
    """Return the values of an ENUM or SET; None if some may have lost characters."""
    lost = charset in _BEYOND_UTF8MB3 and any("?" in value for value in printed or ())
    return None if lost else printed


def _number(value: object) -> int | None:
    return None if value is None else int(str(value))


def _keys(connection: Connection, names: Collection[TableName]) -> dict[TableName, list[Row]]:
    """Return the columns of the unique keys of each table, the primary one among them."""
    rows = rows_of_tables(
        connection,
        names,
        "SELECT TABLE_SCHEMA AS `database`, TABLE_NAME AS `table`, INDEX_NAME AS key_name,"
        " SEQ_IN_INDEX AS ordinal, COLUMN_NAME AS name, SUB_PART AS prefix, NON_UNIQUE AS repeats,"
        " INDEX_TYPE AS kind"
        " FROM information_schema.STATISTICS",
        order="SEQ_IN_INDEX",
    )
    by_table: dict[TableName, list[Row]] = defaultdict(list)
    for row in rows:
        if not int(row["repeats"]):
            by_table[row["database"], row["table"]].append(row)
    return by_table


def quote_table(name: TableName) -> str:
    """Return the name as SQL takes it."""
    return ".".join(map(quote_identifier, name))


def rows_of_tables(
    connection: Connection, names: Collection[TableName], statement: str, *, order: str
) -> Iterable[Row]:
    """Yield the rows of information_schema about the tables, in their order.

    MariaDB opens every table of a database, unless the query names one.

    Args:
        connection: To the server.
        names: The tables.
        statement: A SELECT without a condition, of `database` and `table` among others.
        order: The columns that order the rows of a table.
    """
    by_database: dict[str, list[str]] = defaultdict(list)
    for database, table in sorted(names):
        by_database[database].append(table)
    for database, tables in by_database.items():
        where = f"{statement} WHERE TABLE_SCHEMA = %s"
        if len(tables) > _ONE_BY_ONE:
            rows = query(connection, f"{where} ORDER BY TABLE_NAME, {order}", database)
        else:
            one = f"{where} AND TABLE_NAME = %s ORDER BY {order}"
            rows = [row for table in tables for row in query(connection, one, database, table)]
        # Names may differ in case alone.
        yield from (row for row in rows if (row["database"], row["table"]) in names)


# Before, MariaDB printed literals bare, and expressions no differently.
_PRINTS_SQL = (10, 2, 7)

_NUMBERS = frozenset({*INTEGERS, "decimal", "year"})
_TEXTS = frozenset({*STRINGS, *TEXTS, *ENUMS})
_READ = _NUMBERS | _TEXTS | {"date", "datetime", "time"}


def read_default(
    column: Facts, printed: str | None, extra: str, of: ServerVersion
) -> Default | None:
    """Return what an insert leaves in a column that it does not name; None if that is not certain.

    Args:
        column: What is known of the column besides.
        printed: Its COLUMN_DEFAULT.
        extra: Its EXTRA.
        of: The server that says so.
    """
    if column.generated or "DEFAULT_GENERATED" in extra.upper():
        return None
    session = Session(
        of.flavor,
        sql_mode=STRICT_ALL_TABLES,
        connection_charset="utf8mb4",
        client_charset="utf8mb4",
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
    default = defaults.read_default(_type(column), literal, session)
    return default if isinstance(default, Default) else None


def _literal(printed: str, session: Session) -> Literal:
    readings = [] if "\\" in printed else split_words(printed, session)
    return read_literal(readings[0]) if readings else Literal(LiteralKind.EXPRESSION)


def _is_exact(column: Facts, literal: Literal) -> bool:
    is_text = literal.kind is LiteralKind.STRING and column.charset not in (None, "binary")
    return is_text and "?" not in literal.text


def _type(column: Facts) -> SqlType:
    is_decimal = column.data_type == "decimal"
    return SqlType(
        column.data_type or "",
        column.precision if is_decimal else None,
        column.scale if is_decimal else None,
        column.fsp or 0,
        bool(column.unsigned),
        column.charset,
        column.values,
    )
