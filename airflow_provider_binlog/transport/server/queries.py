"""SQL queries to a server: its identity, the end of its log, whether a position is still valid.

They take any open PyMySQL connection, of MySQL 5.7 and later or MariaDB 10.6 and later, and change
nothing on the server.

Source: MySQL 9.7 reference manual, 15.7.7 SHOW statements and 19.1.3.8 GTID functions; MariaDB
documentation, BINLOG_GTID_POS.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_binlog.binlog.gtid_set import MariadbGtidPosition, missing_gtids
from airflow_provider_binlog.binlog.header import ROWS, EventType, show_name
from airflow_provider_binlog.errors import (
    AccessDeniedError,
    ForeignPositionError,
    PositionPurgedError,
    ServerSetupError,
    SourceError,
)
from airflow_provider_binlog.position import FIRST_OFFSET, Flavor, Position, SourceIdentity
from airflow_provider_binlog.transport.server.driver import LOG_IS_OFF, Row, driver_errors, query
from airflow_provider_binlog.transport.server.status import (
    ServerVersion,
    global_variables,
    server_version,
)

if TYPE_CHECKING:
    import pymysql

    Connection = pymysql.Connection[Any]


_SHOW_REPLICAS_SINCE = 8, 0, 22
_BEGIN_AGAIN = "take new snapshots of the tables, and capture under a new source name"


_ENCRYPTION_HEADER_SIZE = 512
"""Bytes before the log in a file that MySQL encrypts; no position counts them."""


class BinaryLog(NamedTuple):
    """One file of the server's log, and its size in bytes, as positions count them."""

    file: str
    size: int


@driver_errors()
def identify(connection: Connection) -> SourceIdentity:
    """Return which server this is, and the base name of its log.

    Raises:
        ServerSetupError: The server writes no binary log.
    """
    flavor = server_version(connection).flavor
    values = global_variables(connection)
    base = values.get("log_bin_basename", "")
    if not base:
        raise ServerSetupError(LOG_IS_OFF)
    # Older MariaDB servers have no uid of their own.
    fallback = f"server_id={values.get('server_id')}"
    name = values.get("server_uuid" if flavor is Flavor.MYSQL else "server_uid") or fallback
    return SourceIdentity(flavor, name, re.split(r"[/\\]", base)[-1])


@driver_errors()
def log_end(connection: Connection) -> Position:
    """Return where the server's log ends now: always a boundary between transactions.

    Its `gtid` is None: what MySQL reports in the same row is not of the same moment.

    Raises:
        AccessDeniedError: The account lacks REPLICATION CLIENT (MariaDB: BINLOG MONITOR).
        ServerSetupError: The server writes no binary log.
    """
    status = log_status(connection)
    return Position(str(status["File"]), int(status["Position"]))


@driver_errors()
def log_status(connection: Connection) -> Row:
    """Return what the server says of its log: `File`, `Position`, `Binlog_Do_DB` and others.

    Raises:
        AccessDeniedError, ServerSetupError: As `log_end`.
    """
    rows = query(connection, _status_statement(server_version(connection)))
    if not rows:
        raise ServerSetupError(LOG_IS_OFF)
    return rows[0]


@driver_errors()
def binary_logs(connection: Connection) -> list[BinaryLog]:
    """Return the files of the log that the server still has, oldest first.

    Raises:
        AccessDeniedError: The account lacks REPLICATION CLIENT (MariaDB: BINLOG MONITOR).
        ServerSetupError: The server writes no binary log.
    """
    return [
        BinaryLog(str(row["Log_name"]), int(row["File_size"]) - _header_size(row))
        for row in query(connection, "SHOW BINARY LOGS")
    ]


def _header_size(file: Row) -> int:
    is_empty = not int(file["File_size"])
    return 0 if is_empty or file.get("Encrypted") != "Yes" else _ENCRYPTION_HEADER_SIZE


@driver_errors()
def bytes_between(connection: Connection, start: Position, stop: Position) -> int:
    """Return how many bytes of log lie between two positions, by the sizes the files have now.

    Raises:
        AccessDeniedError, ServerSetupError: As `binary_logs`.
    """
    files = (
        log.size
        for log in binary_logs(connection)
        if start.file_number <= Position(log.file, FIRST_OFFSET).file_number < stop.file_number
    )
    return sum(files) - start.offset + stop.offset


@driver_errors()
def first_position(connection: Connection) -> Position:
    """Return where the oldest file that the server still has begins.

    Raises:
        AccessDeniedError, ServerSetupError: As `binary_logs`.
    """
    return Position(binary_logs(connection)[0].file, FIRST_OFFSET)


def server_ids(connection: Connection) -> set[int]:
    """Return the ids of the server and of its replicas, as far as the account may see them."""
    ids = {int(query(connection, "SELECT @@GLOBAL.server_id AS id")[0]["id"])}
    of = server_version(connection)
    # MariaDB has the older name alone, MySQL 8.4 the newer one; the id is the first column of both.
    new = of.flavor is Flavor.MYSQL and of.version >= _SHOW_REPLICAS_SINCE
    try:
        rows = query(connection, "SHOW REPLICAS" if new else "SHOW SLAVE HOSTS")
    except AccessDeniedError:
        return ids
    return ids | {int(next(iter(row.values()))) for row in rows}


@driver_errors()
def gtid_executed(connection: Connection) -> str:
    """Return every transaction in the server's history, in text; empty where it has no GTIDs.

    MySQL: `gtid_executed`. MariaDB: `gtid_binlog_pos`, the last GTID of each domain in its log.
    """
    flavor = server_version(connection).flavor
    variable = "gtid_executed" if flavor is Flavor.MYSQL else "gtid_binlog_pos"
    return _gtids(connection, variable)


def _gtids(connection: Connection, variable: str) -> str:
    value = query(connection, f"SELECT @@GLOBAL.{variable} AS gtids")[0]["gtids"]
    return re.sub(r"\s", "", value or "")


@driver_errors()
def gtid_at(connection: Connection, position: Position) -> str | None:
    """Return the GTIDs executed before a position; None if the server cannot say.

    Only MariaDB can. The answer is None, too, if no event begins at the position. It reads the file
    up to there.
    """
    if server_version(connection).flavor is not Flavor.MARIADB:
        return None
    statement = "SELECT BINLOG_GTID_POS(%s, %s) AS gtids"
    value = query(connection, statement, position.file, position.offset)[0]["gtids"]
    return None if value is None else re.sub(r"\s", "", value)


@driver_errors()
def check_position(connection: Connection, identity: SourceIdentity, position: Position) -> None:
    """Refuse a position that this server did not issue, or from which it cannot send any more.

    Asked before anything is read or staged. `identity` is that of the server that issued it.

    Raises:
        ForeignPositionError: Another server issued the position, or this one before its log was
            reset.
        PositionPurgedError: The server has deleted the file.
    """
    here = identify(connection)
    _check_identity(here, identity, position)
    _check_file(binary_logs(connection), position)
    if here.flavor is Flavor.MARIADB:
        _check_mariadb_history(connection, position)
    else:
        _check_mysql_history(connection, position)


@driver_errors()
def check_gtids(connection: Connection, gtids: str) -> None:
    """Refuse a GTID set from which this server cannot go on; asked before its log is.

    Raises:
        ForeignPositionError: The server has not executed all of it.
        PositionPurgedError: The server has purged transactions that are not in it.
        FormatError: The text is no GTID set of the server's family.
    """
    flavor = server_version(connection).flavor
    if unknown := missing_gtids(flavor, gtids, gtid_executed(connection)):
        raise ForeignPositionError(
            "the server's log lacks transactions of the GTID set: it is another history, or a "
            "replica that has not caught up, or one that does not log what it applies",
            gtids=gtids,
            unknown=unknown,
        )
    is_mysql = flavor is Flavor.MYSQL
    oldest = _gtids(connection, "gtid_purged") if is_mysql else _oldest_list(connection)
    if purged := missing_gtids(flavor, oldest, gtids):
        raise PositionPurgedError(
            "the server has purged transactions that are not in the GTID set: changes are lost, "
            "take a new snapshot",
            gtids=gtids,
            purged=purged,
        )


def _oldest_list(connection: Connection) -> str:
    """Return where every domain of a MariaDB stood when its oldest file began."""
    oldest = binary_logs(connection)[0].file
    for event in query(connection, "SHOW BINLOG EVENTS IN %s LIMIT 3", oldest):
        if event["Event_type"] == "Gtid_list":
            gtids = re.findall(r"(\d+)-(\d+)-(\d+)", str(event["Info"]))
            return str(MariadbGtidPosition.of((int(a), int(b), int(c)) for a, b, c in gtids))
    return ""


def _check_identity(here: SourceIdentity, identity: SourceIdentity, position: Position) -> None:
    if here.log_name != identity.log_name and here.server == identity.server:
        raise ForeignPositionError(
            "the server's log got another name since the position was issued",
            position=position,
            log_name=here.log_name,
            issued_for=identity.log_name,
        )
    if here != identity:
        raise ForeignPositionError(
            "the position was issued by another server",
            position=position,
            issued_by=identity,
            this_is=here,
        )


def _check_file(logs: list[BinaryLog], position: Position) -> None:
    sizes = dict(logs)
    oldest, newest = Position(logs[0].file, FIRST_OFFSET), Position(logs[-1].file, logs[-1].size)
    if position.file not in sizes:
        if position.coordinates > newest.coordinates:
            raise ForeignPositionError(
                "the position is after the end of the log: "
                f"the log was reset, or the server restored; {_BEGIN_AGAIN}",
                position=position,
                log_end=newest,
            )
        raise PositionPurgedError(
            "the server has purged its log at this position: changes are lost, take a new snapshot",
            position=position,
            oldest=oldest,
        )
    if not sizes[position.file]:
        raise PositionPurgedError(
            "the server lists the file of the position, and cannot read it: it was damaged, or "
            "removed from the server's disk; put it back, or take a new snapshot",
            position=position,
        )
    if position.offset > sizes[position.file]:
        raise ForeignPositionError(
            "the position is after the end of its file: "
            f"the log was reset, or the server restored; {_BEGIN_AGAIN}",
            position=position,
            file_size=sizes[position.file],
        )


def _check_mysql_history(connection: Connection, position: Position) -> None:
    """Compare the GTIDs, and look at the event where the range would start.

    The GTIDs of a log that was reset start at 1 again under the same server_uuid, so one that has
    since grown as long contains the old set. But then the transaction that follows the position is
    in the old set already. `gtid_purged` says nothing more: on a server made from a backup it also
    holds transactions that never were in this log.
    """
    if position.gtid:
        statement = "SELECT GTID_SUBTRACT(%s, @@GLOBAL.gtid_executed) AS unknown"
        unknown = query(connection, statement, position.gtid)[0]["unknown"]
        if unknown:
            raise ForeignPositionError(
                "the server has not executed everything before the position: "
                f"its log was reset, or it was restored from a backup; {_BEGIN_AGAIN}",
                position=position,
                unknown=re.sub(r"\s", "", unknown),
            )
    events = _following_events(connection, position)
    if events and events[0]["Event_type"] in _INSIDE_A_TRANSACTION:
        raise _not_a_boundary(position, str(events[0]["Event_type"]))
    begins = [event for event in events if str(event["Event_type"]).startswith("Gtid")]
    gtid = _GTID_NEXT.search(str(begins[0]["Info"])) if begins else None
    before = position.logged_gtid
    if before and gtid:
        statement = "SELECT GTID_SUBSET(%s, %s) AS known"
        if query(connection, statement, gtid[1], before)[0]["known"]:
            raise ForeignPositionError(
                "the transaction at the position counts as one before it: the log was reset; "
                f"{_BEGIN_AGAIN}",
                position=position,
                transaction=gtid[1],
            )


def _check_mariadb_history(connection: Connection, position: Position) -> None:
    """Compare the last GTID of each domain with what the log holds before the position."""
    logged = gtid_at(connection, position)
    if logged is None:
        raise _not_a_boundary(position, "inside an event")
    before = MariadbGtidPosition.parse(position.logged_gtid or "")
    if not before.agrees_with(MariadbGtidPosition.parse(logged)):
        raise ForeignPositionError(
            "other transactions precede this position than when it was issued: the log was reset; "
            f"{_BEGIN_AGAIN}",
            position=position,
            gtid=position.gtid,
            found=logged,
        )


_GTID_NEXT = re.compile(r"GTID_NEXT\s*=\s*'([0-9a-fA-F-]{36}:[^']+)'")

# As SHOW BINLOG EVENTS names them; what may stand at a boundary is left open, it grows by version.
_INSIDE_A_TRANSACTION = frozenset(
    map(
        show_name,
        ROWS
        | {
            EventType.QUERY,
            EventType.ROWS_QUERY,
            EventType.TABLE_MAP,
            EventType.TRANSACTION_PAYLOAD,
            EventType.XA_PREPARE,
            EventType.XID,
        },
    )
)


def _following_events(connection: Connection, position: Position) -> list[Row]:
    """Return the three events that follow a position, fewer at the end of the file.

    Three, because a file begins with two before its first transaction.

    Raises:
        ForeignPositionError: No event begins there.
    """
    # The file's name is quoted by the driver; FROM takes a literal number only.
    statement = f"SHOW BINLOG EVENTS IN %s FROM {position.offset:d} LIMIT 3"
    try:
        return query(connection, statement, position.file)
    except SourceError as error:
        if error.context.get("code") != _ERROR_WHEN_EXECUTING_COMMAND:
            raise
        raise _not_a_boundary(position, str(error.args[0])) from error


_ERROR_WHEN_EXECUTING_COMMAND = 1220


def _not_a_boundary(position: Position, found: str) -> ForeignPositionError:
    return ForeignPositionError(
        "no transaction begins at the position: the log was reset, or the position is mistyped",
        position=position,
        found=found,
    )


def _status_statement(of: ServerVersion) -> str:
    # MySQL 8.2 brought the new words and 8.4 took the old ones away; MariaDB has kept the old ones.
    if of.flavor is Flavor.MYSQL and of.version >= (8, 2):
        return "SHOW BINARY LOG STATUS"
    return "SHOW MASTER STATUS"
