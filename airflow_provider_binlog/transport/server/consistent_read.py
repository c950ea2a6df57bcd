"""A transaction that reads one table, and a position whose transactions it sees for certain.

A server writes a transaction to its log before the engine makes it visible, so that the end of the
log says nothing of what a SELECT sees. What says it:

    MariaDB           `Binlog_snapshot_position` of START TRANSACTION WITH CONSISTENT SNAPSHOT:
                      exactly what it sees, unless a prepared XA transaction is being committed,
                      which the log shows sooner: then as MySQL without GTIDs
    MySQL with GTIDs  `gtid_executed`, which is updated after the engine's commit: at least that;
                      and the end of the log, once all are executed whose GTIDs were owned then
    MySQL without     the end of the log under LOCK TABLES ... READ, which waits for the commit of
                      all who wrote to the table: exactly, if it is held until the transaction of
                      the other connection is open. Without autocommit it waits for InnoDB's locks
                      too: those of metadata end with the session that prepared on MariaDB
    no transactions   the same, if the lock is held until the rows are read: MyISAM and Aria show a
                      SELECT what was written after the transaction began

Source: mysql-server, sql/binlog.cc, MYSQL_BIN_LOG::ordered_commit, sql/rpl_gtid_state.cc,
Gtid_state::update_commit_group; MariaDB documentation, Binlog_snapshot_position.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace

from pymysql.constants import ER

from airflow_provider_binlog import errors
from airflow_provider_binlog.names import quote_identifier
from airflow_provider_binlog.position import Flavor, Position
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.sql.columns import PartialSchema
from airflow_provider_binlog.transport.server import driver, information_schema, queries
from airflow_provider_binlog.transport.server.driver import Connection, driver_errors, query

# Writers wait as long as the lock is waited for.
_LOCK_WAIT_SECONDS = 10
_LOCK_HELD_SECONDS_MAX = 86_400
_NET_WRITE_TIMEOUT_SECONDS = 3600
_OWNED_SECONDS_MAX = 5
_OWNED_POLL_SECONDS = 0.005

_SESSION = (
    # Text comes in the column's character set, and times in UTC, as in the log.
    "SET SESSION character_set_results = NULL",
    "SET SESSION time_zone = '+00:00'",
    # No PAD_CHAR_TO_FULL_LENGTH; and a condition may name any date that a column holds.
    "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'",
    f"SET SESSION net_write_timeout = {_NET_WRITE_TIMEOUT_SECONDS}",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
)
_REFUSED_KINDS = {
    "VIEW": "it is a view, whose changes no log has: take snapshots of the tables that it reads",
    "SYSTEM VERSIONED": "it is system-versioned, and capture does not follow its historical rows: "
    "leave it out, or ALTER TABLE ... DROP SYSTEM VERSIONING",
    "BLACKHOLE": "its engine keeps no row, and the log has every row that is written to it: leave "
    "it out",
}
_BEGIN = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"


@dataclass(frozen=True)
class ConsistentRead:
    """A table as an open transaction sees it.

    Attributes:
        connection: In the transaction; its text is in the character set of each column.
        low: Every transaction before it is visible, by its coordinates and by its GTID set, if it
            has one, which may contain more. A statement that alters the table may be between it and
            the moment from which on the transaction keeps such statements waiting.
        is_exact: Whether nothing after the coordinates of `low` is visible in the table.
        schema: The table's columns and key.
    """

    connection: Connection
    low: Position
    is_exact: bool
    schema: PartialSchema


@contextmanager
def open_read(
    connect: Callable[[], Connection],
    name: TableName,
    *,
    exact: bool,
    excluded: Collection[str] = (),
) -> Iterator[ConsistentRead]:
    """Open a transaction that reads a table, and writes nothing; it ends with the context.

    Until then nobody alters the table. With `exact`, `low` is exact, be it by a lock that keeps
    writers waiting for moments. The account needs no right on the columns that are `excluded`, by
    folded names.

    Raises:
        AccessDeniedError: The account may not read or lock the table.
        ServerSetupError: The server writes no binary log.
        SourceError: There is no such table, or the server refused.
        TableAlteredError: The table got another engine meanwhile.
        TableLockedError: Another session held the table for too long.
        UnsupportedError: It is a view, or another table whose changes capture cannot follow.
    """
    with open_session(connect) as connection, ExitStack() as held:
        has_transactions = _check_kind(connection, name)
        if has_transactions:
            low, is_exact = _begin(connect, connection, name, exact=exact)
        else:
            low, is_exact = held.enter_context(_locked_end(connect, name)), True
            query(connection, _BEGIN)
        with driver.ended_by(connection, "ROLLBACK"):
            schema = _read_schema(connection, name, excluded)
            if _check_kind(connection, name) != has_transactions:
                raise errors.TableAlteredError("the table was altered while its snapshot was read")
            yield ConsistentRead(connection, low, is_exact, schema)


@contextmanager
def open_session(connect: Callable[[], Connection]) -> Iterator[Connection]:
    """Open a session that reads rows as the log has them; it ends with the context."""
    with closing(connect()) as connection:
        information_schema.prepare_session(connection)
        for statement in _SESSION:
            query(connection, statement)
        yield connection


@driver_errors()
def _begin(
    connect: Callable[[], Connection], connection: Connection, name: TableName, *, exact: bool
) -> tuple[Position, bool]:
    """Start the transaction; return its `low`, and whether that is exact."""
    if queries.server_version(connection).flavor is Flavor.MARIADB:
        prepared = bool(query(connection, "XA RECOVER FORMAT='SQL'"))
        query(connection, _BEGIN)
        if not _commits_prepared(connection, prepared=prepared):
            return _snapshot_position(connection), True
        query(connection, "ROLLBACK")
    elif not exact and _has_gtids(connection) and (end := _executed_end(connection)) is not None:
        low = replace(end, gtid=queries.gtid_executed(connection))
        query(connection, _BEGIN)
        return low, False
    with _locked_end(connect, name) as low:
        query(connection, _BEGIN)
    return low, True


@contextmanager
def _locked_end(connect: Callable[[], Connection], name: TableName) -> Iterator[Position]:
    """Lock a table, by another connection; yield where the log ends then."""
    with closing(connect()) as other, _locked(other, name):
        low = queries.log_end(other)
        yield replace(low, gtid=queries.gtid_executed(other)) if _has_gtids(other) else low


def _commits_prepared(connection: Connection, *, prepared: bool) -> bool:
    """Whether a prepared transaction of MariaDB may have been in the middle of its commit.

    `Com_xa_commit` counts commits in one phase, too. What is committed has been prepared, as XA
    RECOVER showed before that moment, or was since: by a client, which is counted, or by a
    replica's threads.
    """
    counts = queries.global_status(connection, "Com_xa_commit", "Com_xa_prepare", "Slaves_running")
    # A fork that does not count them may do all of it.
    others = prepared or counts.get("com_xa_prepare", 1) or counts.get("slaves_running", 1)
    return bool(counts.get("com_xa_commit", 1) and others)


def _has_gtids(connection: Connection) -> bool:
    return queries.global_variables(connection).get("gtid_mode") == "ON"


def _executed_end(connection: Connection) -> Position | None:
    """Return where the log ended, once all before it is visible; None if that takes too long.

    A replica owns the GTID of a transaction as long as it applies it, which may be long.
    """
    end = queries.log_end(connection)
    owned = _owned_gtids(connection)
    until = time.monotonic() + _OWNED_SECONDS_MAX
    while owned & _owned_gtids(connection):
        if time.monotonic() > until:
            return None
        time.sleep(_OWNED_POLL_SECONDS)
    return end


def _owned_gtids(connection: Connection) -> set[str]:
    (row,) = query(connection, "SELECT @@GLOBAL.gtid_owned AS owned")
    return set(parse_owned(str(row["owned"] or "")))


def parse_owned(text: str) -> Iterator[str]:
    """Yield the GTIDs of `gtid_owned`, each with its thread: `uuid:5#12`, `uuid:tag:1#14`."""
    for interval in text.split(","):
        uuid, *rest = interval.strip().split(":")
        prefix = uuid
        for word in rest:
            if "#" in word:
                yield f"{prefix}:{word}"
            else:
                prefix = f"{uuid}:{word}"


@driver_errors()
def read_high(read: ConsistentRead, *, gtids: bool) -> Position:
    """Return a position after which nothing is visible to a transaction that is open.

    Until the transaction ends, no statement after it alters the table. With `gtids`, its GTID set
    says so on other servers, too.
    """
    connection = read.connection
    if not gtids:
        return queries.log_end(connection)
    # Visible is what was executed, and what is in the middle of its commit.
    owned: set[str] = set()
    if queries.server_version(connection).flavor is Flavor.MYSQL:
        owned = {gtid.partition("#")[0] for gtid in _owned_gtids(connection)}
    executed = queries.gtid_executed(connection)
    return replace(
        queries.log_end(connection), gtid=",".join(filter(None, [executed, *sorted(owned)]))
    )


def _snapshot_position(connection: Connection) -> Position:
    rows = query(connection, "SHOW SESSION STATUS LIKE 'Binlog\\_snapshot\\_%'")
    status = {str(row["Variable_name"]).lower(): str(row["Value"]) for row in rows}
    file = status.get("binlog_snapshot_file")
    if not file:
        raise errors.ServerSetupError(driver.LOG_IS_OFF)
    return Position(file, int(status["binlog_snapshot_position"]))


@contextmanager
def _locked(connection: Connection, name: TableName) -> Iterator[None]:
    """Keep writers from a table, after the commit of those who wrote to it."""
    query(connection, f"SET SESSION lock_wait_timeout = {_LOCK_WAIT_SECONDS}")
    query(connection, f"SET SESSION innodb_lock_wait_timeout = {_LOCK_WAIT_SECONDS}")
    query(connection, "SET SESSION autocommit = 0, innodb_table_locks = 1")
    query(connection, f"SET SESSION wait_timeout = {_LOCK_HELD_SECONDS_MAX}")
    try:
        query(connection, f"LOCK TABLES {information_schema.quote_table(name)} READ")
    except errors.AccessDeniedError as error:
        database = quote_identifier(name[0])
        raise errors.AccessDeniedError(
            "the account lacks LOCK TABLES, which it takes to know the position of this table's "
            f"rows: GRANT LOCK TABLES, SELECT ON {database}.* TO the account",
            table=".".join(name),
        ) from error
    except errors.SourceError as error:
        if error.context.get("code") == ER.NO_SUCH_TABLE:
            raise _no_table(name) from error
        if error.context.get("code") not in information_schema.LOCKED:
            raise
        raise errors.TableLockedError(
            "a table cannot be locked for a moment: a transaction that wrote to it is still open, "
            "or prepared (XA RECOVER)",
            table=".".join(name),
            seconds=_LOCK_WAIT_SECONDS,
        ) from error
    with driver.ended_by(connection, "UNLOCK TABLES"):
        yield


def _check_kind(connection: Connection, name: TableName) -> bool:
    """Return whether a table's engine has transactions; True where the account sees no such table.

    Raises:
        UnsupportedError: Capture cannot follow its changes.
    """
    found = information_schema.read_kinds(connection, [name]).get(name)
    if found is None:
        return True
    kind = found.engine if found.engine == "BLACKHOLE" else found.type
    if kind != "BASE TABLE":
        raise errors.UnsupportedError(
            "a snapshot is taken of base tables only: "
            + _REFUSED_KINDS.get(kind, "leave this one out"),
            table=".".join(name),
            kind=kind,
        )
    return found.has_transactions


@driver_errors()
def _read_schema(
    connection: Connection, name: TableName, excluded: Collection[str]
) -> PartialSchema:
    schema = None
    if information_schema.hold_table(connection, name, excluded):
        schema = information_schema.read_table(connection, name, queries.server_version(connection))
    if schema is None:
        raise _no_table(name)
    return schema


def _no_table(name: TableName) -> errors.SourceError:
    return errors.SourceError("the server has no such table", table=".".join(name))
