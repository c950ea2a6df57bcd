"""What a server and its account are like for capture: one list, for people and for tasks.

The connection's test, the command `check`, and the extract task before it stages anything read the
same findings. Those that are errors are refused, all at once.

Source: MySQL 9.7 reference manual, 19.1.6.4, 19.2.5.1 Evaluation of Database-Level Replication and
Binary Logging Options, 8.2.2 Privileges; MariaDB documentation, GRANT, Replication Filters.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

from airflow_provider_binlog.errors import AccessDeniedError, ServerSetupError
from airflow_provider_binlog.names import quote_identifier
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.transport.server import driver, queries
from airflow_provider_binlog.transport.server.driver import Connection, driver_errors, query
from airflow_provider_binlog.transport.server.information_schema import list_tables


class Level(StrEnum):
    """What a finding means for capture."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True)
class Finding:
    """One thing that was checked.

    Attributes:
        name: A variable of the server, a privilege, or what tables are checked for.
        found: As it is.
        level: An error is refused by capture, or quarantines the tables.
        why: What follows from it; empty if nothing does.
        repair: The statement or the setting that mends it; empty if nothing has to be.
        tables: The tables that it concerns; empty for all.
    """

    name: str
    found: str
    level: Level = Level.OK
    why: str = ""
    repair: str = ""
    tables: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return a sentence: what is wrong, and what mends it."""
        return ": ".join(filter(None, (self.why, self.repair)))

    def to_json(self) -> dict[str, object]:
        """Return plain values."""
        return {
            "level": self.level.value,
            "check": self.name,
            "found": self.found,
            "why": self.why,
            "repair": self.repair,
            "tables": list(self.tables),
        }


@driver_errors()
def check_setup(connection: Connection) -> None:
    """Refuse a server or an account that capture cannot work with, naming all that is wrong.

    Settings are the server's global ones; a session may have its own, which only its events show.

    Raises:
        ServerSetupError: A variable is not as it must be; the text has the statement that sets it.
        AccessDeniedError: Only privileges are missing; the text has the GRANT.
    """
    raise_errors(list_findings(connection), queries.server_version(connection))


def raise_errors(findings: Iterable[Finding], of: queries.ServerVersion) -> None:
    """Raise what `check_setup` raises for findings."""
    wrong = [finding for finding in findings if finding.level is Level.ERROR]
    if not wrong:
        return
    numbered = [f"({number}) {finding}" for number, finding in enumerate(wrong, start=1)]
    is_denied = all(finding.name.startswith(_PRIVILEGE) for finding in wrong)
    kind = AccessDeniedError if is_denied else ServerSetupError
    raise kind(f"this server cannot be captured yet: {' '.join(numbered)}", server=of.text)


@driver_errors()
def list_findings(connection: Connection) -> list[Finding]:
    """Return what a server and the account are like for capture, whatever its tables are."""
    of, values = queries.server_version(connection), queries.global_variables(connection)
    return [
        *list_settings(of, values),
        check_expiry(connection, of, values),
        _check_updates(connection, values),
        *_list_privileges(connection, of),
        _check_clock(connection),
    ]


_TESTED = {Flavor.MYSQL: (8, 0), Flavor.MARIADB: (10, 6)}
KEPT_MIN = timedelta(days=1)
"""Log that is kept for less time is warned of."""
_WEEK_HOURS = 7 * 24
_GTIDS_ONLINE = (
    "https://dev.mysql.com/doc/refman/8.4/en/replication-mode-change-online-enable-gtids.html"
)


def list_settings(of: queries.ServerVersion, values: Mapping[str, str]) -> list[Finding]:
    """Return what the variables of a server are like for capture.

    What a release does not have is not checked.
    """

    def check(
        name: str,
        is_right: Callable[[str], bool] = lambda _: True,
        *,
        level: Level = Level.ERROR,
        why: str = "",
        repair: str = "",
        default: str | None = None,
    ) -> list[Finding]:
        value = values.get(name, default)
        if value is None:
            return []
        if is_right(value.upper()):
            return [Finding(name, value)]
        return [Finding(name, value, level, why, repair)]

    return [
        _check_version(of),
        _check_log(values),
        *check(
            "server_id",
            lambda value: value != "0",
            why="server_id is 0, and the server then sends its log to nobody",
            repair=_set(of, values, "server_id", "1"),
        ),
        *check(
            "lower_case_table_names",
            lambda value: value == "0",
            why="lower_case_table_names is not 0",
            repair=(
                "statements in the log then write names as their author did, and rows do not, so "
                "that a TRUNCATE could be missed. It is set for good when a server is initialised: "
                "capture from a replica that was initialised with 0."
            ),
            default="0",
        ),
        *_check_engine(values),
        *check(
            "binlog_format",
            lambda value: value == "ROW",
            why=f"binlog_format is {values.get('binlog_format')}, statements hold no row changes",
            repair=_set(of, values, "binlog_format", "ROW"),
        ),
        *check(
            "binlog_row_image",
            lambda value: value == "FULL",
            level=Level.WARNING,
            why="a table whose rows get other keys is stale until it is reloaded",
            repair=_set(of, values, "binlog_row_image", "FULL"),
        ),
        *check(
            "binlog_row_metadata",
            lambda value: value == "FULL",
            level=Level.WARNING,
            why=(
                "the log has neither the names of columns nor their keys: capture needs SELECT on "
                "the tables"
            ),
            repair=_set(of, values, "binlog_row_metadata", "FULL"),
            default="NO_LOG",
        ),
        *check(
            "binlog_row_value_options",
            lambda value: not value or values.get("binlog_row_image", "FULL") == "FULL",
            level=Level.WARNING,
            why=(
                "with row images that lack columns, the log does not have the JSON documents that "
                "partial updates change: their tables are quarantined"
            ),
            repair=_set(of, values, "binlog_row_value_options", "''"),
        ),
        *check("binlog_transaction_compression"),
        *check("log_bin_compress"),
        *check(
            "gtid_mode",
            lambda value: value == "ON",
            level=Level.WARNING,
            why=(
                "without GTIDs, capture cannot follow a failover, and each snapshot needs "
                "LOCK TABLES"
            ),
            repair=f"gtid_mode=ON, step by step: {_GTIDS_ONLINE}",
        ),
    ]


def needs_select(of: queries.ServerVersion, values: Mapping[str, str]) -> bool:
    """Whether capture reads information_schema of each table, not only its snapshots."""
    logged = (values.get("binlog_row_metadata"), values.get("binlog_row_image", "FULL"))
    # On MariaDB even FULL does not distinguish a UUID from a BINARY(16).
    return of.flavor is Flavor.MARIADB or logged != ("FULL", "FULL")


@driver_errors()
def find_unreadable(connection: Connection) -> Finding | None:
    """Return that the account sees no table, where capture has to read those of the server.

    Capture is not refused then, but each table is quarantined once it changes.
    """
    of, values = queries.server_version(connection), queries.global_variables(connection)
    if not needs_select(of, values) or list_tables(connection):
        return None
    if any(grant.has("SELECT") for grant in _list_grants(connection)):
        # There is none yet.
        return None
    return Finding(
        f"{_PRIVILEGE}SELECT",
        "no table that the account sees",
        Level.ERROR,
        "the log does not say all of the tables' columns, and each is quarantined once it changes",
        f"GRANT SELECT ON the captured tables TO {quoted_account(connection)};",
    )


def _check_log(values: Mapping[str, str]) -> Finding:
    value = values.get("log_bin", "OFF")
    if value.upper() in {"ON", "1"}:
        return Finding("log_bin", value)
    return Finding("log_bin", value, Level.ERROR, *_split(f"{driver.LOG_IS_OFF}."))


def _check_engine(values: Mapping[str, str]) -> list[Finding]:
    name, problem = "binlog_storage_engine", queries.find_engine_problem(values)
    return [Finding(name, values[name], Level.ERROR, *_split(problem))] if problem else []


def check_expiry(
    connection: Connection, of: queries.ServerVersion, values: Mapping[str, str]
) -> Finding:
    """Return whether a server with these settings keeps its log long enough."""
    if queries.is_managed_by_amazon(values):
        name = "binlog retention hours"
        repair = f"CALL mysql.rds_set_configuration('{name}', {_WEEK_HOURS});"
        try:
            kept: timedelta | None = queries.amazon_retention(connection)
        except AccessDeniedError:
            return Finding(
                name,
                "not known",
                Level.WARNING,
                "Amazon deletes the log by it, and the account may not read it: neither this check "
                "nor the head-room say when",
                "GRANT EXECUTE ON PROCEDURE mysql.rds_show_configuration TO "
                f"{quoted_account(connection)};",
            )
    else:
        name, kept = "binlog_expire_logs_seconds", queries.find_expiry(values)
        repair = _set(of, values, name, str(_WEEK_HOURS * 3_600))
    if kept is None or kept >= KEPT_MIN:
        return Finding(name, "for ever" if kept is None else str(kept))
    return Finding(
        name,
        str(kept),
        Level.WARNING,
        "the server deletes its log sooner than a day after it was written: a DAG that pauses for "
        "as long loses changes",
        repair,
    )


def _check_version(of: queries.ServerVersion) -> Finding:
    if of.version >= _TESTED[of.flavor]:
        return Finding("version", f"{of.flavor.value} {of.text}")
    oldest = ".".join(map(str, _TESTED[of.flavor]))
    return Finding(
        "version",
        f"{of.flavor.value} {of.text}",
        Level.WARNING,
        f"it is older than {oldest}, the oldest release that is tested",
    )


def _split(problem: str) -> tuple[str, str]:
    """Return why something is a problem, and its repair."""
    why, _, repair = problem.partition(": ")
    return why, repair


def _check_updates(connection: Connection, values: Mapping[str, str]) -> Finding:
    name = _updates_variable(values)
    value = values.get(name, "")
    if problem := find_replica_problem(connection):
        return Finding(name, value, Level.ERROR, *_split(f"{problem}."))
    return Finding(name, value)


def _updates_variable(values: Mapping[str, str]) -> str:
    names = ("log_replica_updates", "log_slave_updates")
    return next((name for name in names if name in values), names[0])


_CLOCK_SECONDS_MAX = 5


def _check_clock(connection: Connection) -> Finding:
    before = time.time()
    row = query(connection, "SELECT UNIX_TIMESTAMP(SYSDATE(6)) AS now")[0]
    # The answer was made somewhere in between.
    ahead = float(row["now"]) - (before + time.time()) / 2
    found = f"{ahead:+.1f} s"
    if abs(ahead) <= _CLOCK_SECONDS_MAX:
        return Finding("clock", found)
    return Finding(
        "clock",
        found,
        Level.WARNING,
        "the clocks of the server and of this machine differ: so do lags and times of rows",
        "synchronise both by NTP",
    )


_PRIVILEGE = "privilege "


def _list_privileges(connection: Connection, of: queries.ServerVersion) -> list[Finding]:
    if of.flavor is Flavor.MARIADB:
        # It has no harmless statement that takes REPLICATION SLAVE alone.
        grants = _list_grants(connection)
        may_dump = any(grant.on == "*.*" and grant.has("REPLICATION SLAVE") for grant in grants)
    else:
        # Takes the same privilege; SHOW GRANTS would leave out what a role brings.
        may_dump = _may(connection, f"SHOW {'REPLICAS' if of.says_replica else 'SLAVE HOSTS'}")
    rights = (
        ("REPLICATION CLIENT", _may(connection, "SHOW BINARY LOGS"), "reading where the log ends"),
        ("REPLICATION SLAVE", may_dump, "reading the log"),
    )
    return [
        Finding(f"{_PRIVILEGE}{name}", "granted")
        if granted
        else Finding(
            f"{_PRIVILEGE}{name}",
            "missing",
            Level.ERROR,
            f"the account lacks {name} for {purpose}",
            f"GRANT {name} ON *.* TO {quoted_account(connection)};",
        )
        for name, granted, purpose in rights
    ]


def quoted_account(connection: Connection) -> str:
    """Return the account as a GRANT takes it."""
    account = str(query(connection, "SELECT CURRENT_USER() AS account")[0]["account"])
    user, _, host = account.rpartition("@")
    return "@".join(map(quote_identifier, (user, host)))


def read_grants(connection: Connection, privilege: str) -> Callable[[str], bool]:
    """Return whether the session has a privilege on a database, by grants on all of its tables.

    Those of the session's roles count. Where a grant names the database itself, those that name it
    by a pattern do not.
    """
    everywhere = False
    exactly: dict[str, bool] = {}
    by_pattern: list[re.Pattern[str]] = []
    for grant in _list_grants(connection):
        if grant.on == "*.*":
            everywhere = everywhere or grant.has(privilege)
        elif grant.on.endswith(".*"):
            name = _unquote(grant.on.removesuffix(".*"))
            literal = _ESCAPED.sub(r"\1", name)
            exactly[literal] = exactly.get(literal, False) or grant.has(privilege)
            if grant.has(privilege):
                by_pattern.append(re.compile(_LIKE.sub(_translate, name), re.DOTALL))
    return lambda database: (
        everywhere
        or exactly.get(database, any(pattern.fullmatch(database) for pattern in by_pattern))
    )


class _Grant(NamedTuple):
    """A line of SHOW GRANTS: privileges, some of them on columns alone, and what they are on."""

    privileges: tuple[str, ...]
    on: str

    def has(self, privilege: str) -> bool:
        """Whether it grants a privilege, if on some columns alone."""
        return any(
            name in {"ALL PRIVILEGES", privilege} or name.startswith(f"{privilege} (")
            for name in self.privileges
        )


_GRANT = re.compile(r"GRANT (?P<privileges>.+) ON (?P<on>\S.*) TO ")
_QUOTES = '`"'
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_LIKE = re.compile(r"\\(.)|(.)", re.DOTALL)


def _list_grants(connection: Connection) -> list[_Grant]:
    """Return the grants of the session, those of its roles among them."""
    using = ""
    if queries.server_version(connection).flavor is Flavor.MYSQL:
        roles = str(query(connection, "SELECT CURRENT_ROLE() AS roles")[0]["roles"])
        using = "" if roles == "NONE" else f" FOR CURRENT_USER() USING {roles}"
    lines = (str(next(iter(row.values()))) for row in query(connection, f"SHOW GRANTS{using}"))
    return list(parse_grants(lines))


def parse_grants(lines: Iterable[str]) -> Iterator[_Grant]:
    """Yield the grants of privileges among the lines of SHOW GRANTS; roles are no privileges."""
    for line in lines:
        if found := _GRANT.match(line):
            yield _Grant(tuple(found["privileges"].split(", ")), found["on"])


def _unquote(name: str) -> str:
    return name[1:-1].replace(name[0] * 2, name[0]) if name[0] in _QUOTES else name


def _translate(found: re.Match[str]) -> str:
    """Return a character of a pattern of LIKE as a regular expression."""
    escaped, plain = found.groups()
    return re.escape(escaped) if escaped else {"%": ".*", "_": "."}.get(plain, re.escape(plain))


def _may(connection: Connection, statement: str) -> bool:
    try:
        query(connection, statement)
    except AccessDeniedError:
        return False
    except ServerSetupError:  # the log is off, which the settings have said already
        return True
    return True


def _set(of: queries.ServerVersion, values: Mapping[str, str], name: str, value: str) -> str:
    if queries.is_managed_by_amazon(values):
        # No account may set it there.
        return f"give {name} the value {value} in the parameter group."
    if of.flavor is Flavor.MYSQL and of.version >= (8,):
        return f"SET PERSIST {name} = {value};"
    return f"SET GLOBAL {name} = {value}; and {name}={value} under [mysqld] in the option file."


@driver_errors()
def check_databases(
    connection: Connection, captures: Callable[[str], bool], databases: Collection[str]
) -> None:
    """Refuse a server whose log leaves out databases that are captured.

    `databases` are looked at besides those that the account sees.

    Raises:
        ServerSetupError: Names the databases; or the server is a replica that logs nothing.
    """
    if problem := find_replica_problem(connection):
        raise ServerSetupError(problem)
    status = queries.log_status(connection)
    only, ignored = (
        set(filter(None, str(status.get(name) or "").split(",")))
        for name in ("Binlog_Do_DB", "Binlog_Ignore_DB")
    )
    if not only and not ignored:
        return
    seen = {database for database, _ in list_tables(connection)}
    candidates = {*databases, *seen, *ignored}
    # Where some are logged alone, the server does not look at those that it ignores.
    left_out = candidates - only if only else candidates & ignored
    if left_out := set(filter(captures, left_out)):
        raise ServerSetupError(
            "the server does not log changes of databases that are captured: correct binlog_do_db "
            "or binlog_ignore_db in its option file and restart it, then load their tables from "
            "new snapshots; or leave these databases out",
            databases=", ".join(sorted(left_out)),
        )


@driver_errors()
def find_replica_problem(connection: Connection) -> str:
    """Return what is wrong with a replica that does not log what it applies; empty if nothing.

    A node of a Galera cluster is one, too: it applies what the other nodes write.
    """
    values = queries.global_variables(connection)
    name = _updates_variable(values)
    if values.get(name, "ON").upper() != "OFF":
        return ""
    if values.get("wsrep_on", "OFF").upper() == "ON":
        what, other = "is a node of a Galera cluster", "another node that logs it"
    elif _is_replica(connection):
        what, other = "is a replica", "its source"
    else:
        return ""
    return (
        f"the server {what}, and does not log what it applies: put {name}=ON under [mysqld] and "
        f"restart it, then load the tables from new snapshots; or capture from {other}"
    )


def _is_replica(connection: Connection) -> bool:
    try:
        return bool(queries.replica_status(connection))
    except AccessDeniedError:
        # On MariaDB that takes REPLICA MONITOR; this says only whether it applies at the moment.
        return any(queries.global_status(connection, "Slaves_running").values())
