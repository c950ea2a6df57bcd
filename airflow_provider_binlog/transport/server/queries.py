"""SQL queries to a server: its version and load, the end of its log, whether a position is valid.

They take any open PyMySQL connection, of MySQL 5.7 and later or MariaDB 10.6 and later.

Source: MySQL 9.7 reference manual, 15.7.7 SHOW statements, 19.1.3.8 GTID functions; MariaDB
documentation, BINLOG_GTID_POS, SHOW REPLICA STATUS.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import NamedTuple

from airflow_provider_binlog import errors
from airflow_provider_binlog.binlog.gtid_set import MariadbGtidPosition, missing_gtids
from airflow_provider_binlog.binlog.header import ROWS, EventType, show_name
from airflow_provider_binlog.position import FIRST_OFFSET, Flavor, Position, SourceIdentity
from airflow_provider_binlog.transport.server import driver
from airflow_provider_binlog.transport.server.driver import Connection, Row, driver_errors, query


class ServerVersion(NamedTuple):
    """The flavor and version of a server.

    Attributes:
        flavor: MySQL's family or MariaDB's.
        version: The numbers at the front of the version: `(9, 7, 4)`.
        text: The version in full, as `SELECT VERSION()` prints it.
    """

    flavor: Flavor
    version: tuple[int, ...]
    text: str

    @property
    def says_replica(self) -> bool:
        """Whether statements say REPLICA in place of SLAVE."""
        return self.flavor is Flavor.MYSQL and self.version >= (8, 0, 22)


@driver_errors()
def server_version(connection: Connection) -> ServerVersion:
    """Return the server's flavor and version."""
    return parse_version(str(query(connection, "SELECT VERSION() AS version")[0]["version"]))


def parse_version(text: str) -> ServerVersion:
    """Return the flavor and version in the text of `SELECT VERSION()`.

    `8.0.mysql_aurora.3.08.0` counts as the MySQL version it stands for. The prefix `5.5.5-`, which
    MariaDB adds for old replicas and proxies pass on, does not count.
    """
    flavor = Flavor.MARIADB if "mariadb" in text.lower() else Flavor.MYSQL
    front = text.removeprefix("5.5.5-") if flavor is Flavor.MARIADB else text
    numbers = re.match(r"\d+(?:\.\d+)*", front, re.ASCII)
    version = tuple(map(int, numbers[0].split("."))) if numbers else ()
    return ServerVersion(flavor, version, text)


GLOBAL_VARIABLES = (
    "basedir",
    *("binlog_expire_logs_auto_purge", "binlog_expire_logs_seconds", "expire_logs_days"),
    *("binlog_storage_engine", "binlog_format", "binlog_row_image", "binlog_row_metadata"),
    *("binlog_row_value_options", "binlog_checksum", "gtid_mode", "gtid_domain_id"),
    *("binlog_transaction_compression", "log_bin_compress"),
    *("log_bin", "log_bin_basename", "log_replica_updates", "log_slave_updates"),
    *("lower_case_table_names", "server_id", "server_uid", "server_uuid"),
    *("time_zone", "version", "wsrep_on"),
)
"""The global variables that capture reads."""


@driver_errors()
def global_variables(connection: Connection) -> dict[str, str]:
    """Return `GLOBAL_VARIABLES` by name, without those that the server does not have."""
    marks = ", ".join(["%s"] * len(GLOBAL_VARIABLES))
    rows = query(
        connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({marks})", *GLOBAL_VARIABLES
    )
    return {str(row["Variable_name"]).lower(): str(row["Value"]) for row in rows}


@driver_errors()
def global_status(connection: Connection, *names: str) -> dict[str, int]:
    """Return counters of SHOW GLOBAL STATUS by lower-case name, without those that are missing."""
    marks = ", ".join(["%s"] * len(names))
    rows = query(connection, f"SHOW GLOBAL STATUS WHERE Variable_name IN ({marks})", *names)
    return {str(row["Variable_name"]).lower(): int(row["Value"]) for row in rows}


@driver_errors()
def threads_running(connection: Connection) -> int:
    """Return how many threads are not asleep, that of this connection among them."""
    return global_status(connection, "Threads_running")["threads_running"]


@driver_errors()
def replica_status(connection: Connection) -> list[Row]:
    """Return the state of a replica, a row for each of its channels; none if it is no replica.

    Raises:
        AccessDeniedError: The account may not read it.
    """
    of = server_version(connection)
    if of.flavor is Flavor.MARIADB:
        return query(connection, "SHOW ALL SLAVES STATUS")
    return query(connection, f"SHOW {'REPLICA' if of.says_replica else 'SLAVE'} STATUS")


@driver_errors()
def replica_lag(connection: Connection) -> float | None:
    """Return the greatest lag among a replica's channels, in seconds; None if it is no replica.

    It is infinite where replication is stopped. Raises as `replica_status`.
    """
    lags = []
    for row in replica_status(connection):
        # The rest of the column's name is the version's.
        lag = next(value for name, value in row.items() if name.lower().startswith("seconds_"))
        lags.append(math.inf if lag is None else float(lag))
    return max(lags, default=None)


_SECONDS_PER_DAY = 86_400


def find_engine_problem(values: Mapping[str, str]) -> str:
    """Return what is wrong with where a server keeps its log, and the repair; empty if nothing."""
    engine = values.get("binlog_storage_engine", "")
    if engine.lower() in ("", "none", "file"):
        return ""
    # MariaDB 12.3. Such a log has no files whose offsets are positions: it is read by GTID.
    return (
        f"binlog_storage_engine is {engine}, and this log is not read yet: remove the option, "
        "restart the server, and load the tables from snapshots."
    )


def is_managed_by_amazon(values: Mapping[str, str]) -> bool:
    """Whether a server is one of RDS or Aurora, by its settings."""
    return values.get("basedir", "").startswith("/rdsdbbin/")


@driver_errors()
def amazon_retention(connection: Connection) -> timedelta:
    """Return for how long Amazon keeps a file of the log of RDS or Aurora, whatever its settings.

    Zero where its `binlog retention hours` are not set: the file is deleted as soon as possible.

    Raises:
        AccessDeniedError: The account may not execute `mysql.rds_show_configuration`.
    """
    rows = query(connection, "CALL mysql.rds_show_configuration")
    hours = {row["name"]: row["value"] for row in rows}.get("binlog retention hours")
    return timedelta(hours=int(hours or 0))


def find_expiry(values: Mapping[str, str]) -> timedelta | None:
    """Return for how long a server keeps a file of its log, by its settings; None for ever."""
    if values.get("binlog_expire_logs_auto_purge", "ON") == "OFF":
        return None
    seconds = int(values.get("binlog_expire_logs_seconds") or 0)
    seconds = seconds or int(float(values.get("expire_logs_days") or 0) * _SECONDS_PER_DAY)
    return timedelta(seconds=seconds) if seconds else None


def read_expiry(connection: Connection, values: Mapping[str, str]) -> timedelta | None:
    """Return for how long a server with these settings keeps a file of its log; None for ever.

    By the settings alone where it is Amazon's, and the account may not read `amazon_retention`.
    """
    if is_managed_by_amazon(values):
        with suppress(errors.AccessDeniedError):
            return amazon_retention(connection)
    return find_expiry(values)


@driver_errors()
def identify(connection: Connection) -> SourceIdentity:
    """Return which server this is, and the base name of its log: the first query of each task.

    Raises:
        ServerSetupError: The server writes no binary log, or none that can be read.
    """
    flavor = server_version(connection).flavor
    values = global_variables(connection)
    if problem := find_engine_problem(values):
        raise errors.ServerSetupError(problem)
    base = values.get("log_bin_basename", "")
    if not base:
        raise errors.ServerSetupError(driver.LOG_IS_OFF)
    # Older MariaDB servers have no uid of their own.
    fallback = f"server_id={values.get('server_id')}"
    name = values.get("server_uuid" if flavor is Flavor.MYSQL else "server_uid") or fallback
    return SourceIdentity(flavor, name, re.split(r"[/\\]", base)[-1])


@driver_errors()
def log_end(connection: Connection) -> Position:
    """Return where the server's log ends now: always a boundary between transactions.

    Its `gtid` is None: what MySQL reports in the same row is not of the same moment. Raises as
    `log_status`.
    """
    status = log_status(connection)
    return Position(str(status["File"]), int(status["Position"]))


@driver_errors()
def log_status(connection: Connection) -> Row:
    """Return what the server says of its log: `File`, `Position`, `Binlog_Do_DB` and others.

    Raises:
        AccessDeniedError: The account lacks REPLICATION CLIENT (MariaDB: BINLOG MONITOR).
        ServerSetupError: The server writes no binary log.
    """
    of = server_version(connection)
    # MySQL 8.2 brought the new words, 8.4 took the old ones away; MariaDB has kept the old ones.
    renamed = of.flavor is Flavor.MYSQL and of.version >= (8, 2)
    rows = query(connection, f"SHOW {'BINARY LOG' if renamed else 'MASTER'} STATUS")
    if not rows:
        raise errors.ServerSetupError(driver.LOG_IS_OFF)
    return rows[0]


class BinaryLog(NamedTuple):
    """One file of the server's log, and its size in bytes, as positions count them."""

    file: str
    size: int


_ENCRYPTION_HEADER_SIZE = 512
"""Bytes before the log in a file that MySQL encrypts; no position counts them."""


@driver_errors()
def binary_logs(connection: Connection) -> list[BinaryLog]:
    """Return the files that the server still has, oldest first; raises as `log_status`."""
    logs = []
    for row in query(connection, "SHOW BINARY LOGS"):
        size = int(row["File_size"])
        is_encrypted = size and row.get("Encrypted") == "Yes"
        uncounted = _ENCRYPTION_HEADER_SIZE if is_encrypted else 0
        logs.append(BinaryLog(str(row["Log_name"]), size - uncounted))
    return logs


@driver_errors()
def bytes_between(connection: Connection, start: Position, stop: Position) -> int:
    """Return how many bytes of log lie between two positions, by the sizes the files have now."""
    return bytes_of(binary_logs(connection), start, stop)


def bytes_of(logs: Sequence[BinaryLog], start: Position, stop: Position) -> int:
    """Return how many bytes of some files lie between two positions."""
    files = (
        log.size
        for log in logs
        if start.file_number <= Position(log.file, FIRST_OFFSET).file_number < stop.file_number
    )
    return sum(files) - start.offset + stop.offset


@driver_errors()
def first_position(connection: Connection) -> Position:
    """Return where the oldest file that the server still has begins."""
    return Position(binary_logs(connection)[0].file, FIRST_OFFSET)


@driver_errors()
def gtid_executed(connection: Connection) -> str:
    """Return every transaction in the server's history, in text; empty where it has no GTIDs.

    MySQL: `gtid_executed`. MariaDB: `gtid_binlog_pos`, the last GTID of each domain in its log.
    """
    flavor = server_version(connection).flavor
    variable = "gtid_executed" if flavor is Flavor.MYSQL else "gtid_binlog_pos"
    return _gtids(connection, f"SELECT @@GLOBAL.{variable} AS gtids") or ""


def _gtids(connection: Connection, statement: str, *arguments: object) -> str | None:
    value = query(connection, statement, *arguments)[0]["gtids"]
    return None if value is None else re.sub(r"\s", "", value)


@driver_errors()
def gtid_at(connection: Connection, position: Position) -> str | None:
    """Return the last GTID of each domain before a position; None if the server cannot say.

    Only MariaDB can. The answer is None, too, if no event begins at the position. It reads the file
    up to there.
    """
    if server_version(connection).flavor is not Flavor.MARIADB:
        return None
    statement = "SELECT BINLOG_GTID_POS(%s, %s) AS gtids"
    return _gtids(connection, statement, position.file, position.offset)


@driver_errors()
def check_position(connection: Connection, position: Position) -> None:
    """Refuse a position that is not in the server's log, or from which it cannot send any more.

    Raises:
        ForeignPositionError: The position was issued before the log was reset, or by no server.
        PositionPurgedError: The server has deleted the file.
    """
    check_file(binary_logs(connection), position)
    if server_version(connection).flavor is Flavor.MARIADB:
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
        raise errors.ForeignPositionError(
            "the server's log lacks transactions of the GTID set: it is another history, or a "
            "replica that has not caught up, or one that does not log what it applies",
            gtids=gtids,
            unknown=unknown,
        )
    if flavor is Flavor.MYSQL:
        oldest = _gtids(connection, "SELECT @@GLOBAL.gtid_purged AS gtids") or ""
    else:
        oldest = _oldest_list(connection)
    if purged := missing_gtids(flavor, oldest, gtids):
        raise errors.PositionPurgedError(
            "the server has purged transactions that are not in the GTID set: changes are lost, "
            "take a new snapshot",
            gtids=gtids,
            purged=purged,
        )


def _oldest_list(connection: Connection) -> str:
    """Return the last GTID of each domain before a MariaDB server's oldest file."""
    oldest = binary_logs(connection)[0].file
    for event in query(connection, "SHOW BINLOG EVENTS IN %s LIMIT 3", oldest):
        if event["Event_type"] == "Gtid_list":
            gtids = re.findall(r"(\d+)-(\d+)-(\d+)", str(event["Info"]))
            return str(MariadbGtidPosition.of((int(a), int(b), int(c)) for a, b, c in gtids))
    return ""


_BEGIN_AGAIN = "take new snapshots of the tables, and capture under a new source name"


def check_file(logs: list[BinaryLog], position: Position) -> None:
    """Refuse a position that is in none of a server's files; raises as `check_position`."""
    sizes = dict(logs)
    oldest, newest = Position(logs[0].file, FIRST_OFFSET), Position(logs[-1].file, logs[-1].size)
    if position.file not in sizes:
        if position.coordinates > newest.coordinates:
            raise errors.ForeignPositionError(
                "the position is after the end of the log: "
                f"the log was reset, or the server restored; {_BEGIN_AGAIN}",
                position=position,
                log_end=newest,
            )
        raise errors.PositionPurgedError(
            "the server has purged its log at this position: changes are lost, take a new snapshot",
            position=position,
            oldest=oldest,
        )
    if not sizes[position.file]:
        raise errors.PositionPurgedError(
            "the server lists the file of the position, and cannot read it: it was damaged, or "
            "removed from the server's disk; put it back, or take a new snapshot",
            position=position,
        )
    if position.offset > sizes[position.file]:
        raise errors.ForeignPositionError(
            "the position is after the end of its file: "
            f"the log was reset, or the server restored; {_BEGIN_AGAIN}",
            position=position,
            file_size=sizes[position.file],
        )


_GTID_NEXT = re.compile(r"GTID_NEXT\s*=\s*'([0-9a-fA-F-]{36}:[^']+)'")

# What may stand at a boundary is left open, it grows by version.
_INSIDE_TYPES = {EventType.QUERY, EventType.ROWS_QUERY, EventType.TABLE_MAP, EventType.XID}
_INSIDE_TYPES |= {EventType.TRANSACTION_PAYLOAD, EventType.XA_PREPARE}
_INSIDE_A_TRANSACTION = frozenset(map(show_name, ROWS | _INSIDE_TYPES))
"""As SHOW BINLOG EVENTS names them."""


def _check_mysql_history(connection: Connection, position: Position) -> None:
    """Compare the GTIDs, and look at the event where the range would start.

    The GTIDs of a log that was reset start at 1 again under the same server_uuid, so one that has
    since grown as long contains the old set. But then the transaction that follows the position is
    in the old set already. `gtid_purged` says nothing more: on a server made from a backup it also
    holds transactions that never were in this log.
    """
    if position.gtid:
        statement = "SELECT GTID_SUBTRACT(%s, @@GLOBAL.gtid_executed) AS gtids"
        if unknown := _gtids(connection, statement, position.gtid):
            raise errors.ForeignPositionError(
                "the server has not executed everything before the position: "
                f"its log was reset, or it was restored from a backup; {_BEGIN_AGAIN}",
                position=position,
                unknown=unknown,
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
            raise errors.ForeignPositionError(
                "the transaction at the position counts as one before it: the log was reset; "
                f"{_BEGIN_AGAIN}",
                position=position,
                transaction=gtid[1],
            )


_GTID_POS_OFFSET_MAX = (1 << 32) - 1
"""The greatest offset that `BINLOG_GTID_POS` takes."""


def _check_mariadb_history(connection: Connection, position: Position) -> None:
    """Compare the last GTID of each domain with what the log holds before the position."""
    if position.offset > _GTID_POS_OFFSET_MAX:
        # The stream, which begins with the file, shows when that was created, and where its events
        # begin.
        return
    logged = gtid_at(connection, position)
    if logged is None:
        raise _not_a_boundary(position, "inside an event")
    before = MariadbGtidPosition.parse(position.logged_gtid or "")
    if not before.agrees_with(MariadbGtidPosition.parse(logged)):
        raise errors.ForeignPositionError(
            "other transactions precede this position than when it was issued: the log was reset; "
            f"{_BEGIN_AGAIN}",
            position=position,
            gtid=position.gtid,
            found=logged,
        )


_ERROR_WHEN_EXECUTING_COMMAND = 1220


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
    except errors.SourceError as error:
        if error.context.get("code") != _ERROR_WHEN_EXECUTING_COMMAND:
            raise
        raise _not_a_boundary(position, str(error.args[0])) from error


def _not_a_boundary(position: Position, found: str) -> errors.ForeignPositionError:
    return errors.ForeignPositionError(
        "no transaction begins at the position: the log was reset, or the position is mistyped",
        position=position,
        found=found,
    )
