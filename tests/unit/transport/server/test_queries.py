"""What of the queries needs no server: versions, errors, advice, imports."""

from __future__ import annotations

import subprocess
import sys
from typing import Any
from unittest.mock import Mock

import pymysql
import pytest

from airflow_provider_binlog.errors import (
    AccessDeniedError,
    ConnectionLostError,
    ServerSetupError,
    SourceError,
)
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.sources.settings import Connections, ConnectionSettings
from airflow_provider_binlog.transport.server import queries
from airflow_provider_binlog.transport.server.driver import query, translate
from airflow_provider_binlog.transport.server.queries import (
    ServerVersion,
    binary_logs,
    parse_version,
)
from airflow_provider_binlog.transport.server.setup import Level, check_expiry, list_settings

MYSQL_97 = ServerVersion(Flavor.MYSQL, (9, 7, 4), "9.7.4")
MYSQL_57 = ServerVersion(Flavor.MYSQL, (5, 7, 44), "5.7.44-log")
MARIADB = ServerVersion(Flavor.MARIADB, (10, 11, 18), "10.11.18-MariaDB-log")
GOOD = {
    "log_bin": "ON",
    "server_id": "1",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_metadata": "FULL",
}


@pytest.mark.parametrize(
    ("text", "flavor", "version"),
    [
        ("9.7.4-2", Flavor.MYSQL, (9, 7, 4)),
        ("8.0.33", Flavor.MYSQL, (8, 0, 33)),
        ("5.7.44-log", Flavor.MYSQL, (5, 7, 44)),
        ("8.0.mysql_aurora.3.08.0", Flavor.MYSQL, (8, 0)),
        ("10.11.18-MariaDB-0+deb12u1-log", Flavor.MARIADB, (10, 11, 18)),
        ("11.8.6-MariaDB-0+deb13u1 from Debian-log", Flavor.MARIADB, (11, 8, 6)),
        ("5.5.5-10.6.9-mariadb", Flavor.MARIADB, (10, 6, 9)),
        ("unheard of", Flavor.MYSQL, ()),
    ],
)
def test_versions(text: str, flavor: Flavor, version: tuple[int, ...]) -> None:
    assert parse_version(text) == ServerVersion(flavor, version, text)


def test_mysql_that_counts_by_years_is_newer_than_all_before() -> None:
    server = parse_version("26.1.0")

    assert server.version > MYSQL_97.version
    assert server.says_replica
    assert settings_by_level(server, GOOD)[Level.ERROR] == []


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (pymysql.OperationalError(1045, "Access denied for user"), AccessDeniedError),
        (pymysql.OperationalError(1227, "Access denied; you need"), AccessDeniedError),
        (pymysql.OperationalError(1142, "SELECT command denied"), AccessDeniedError),
        (pymysql.OperationalError(1143, "SELECT command denied for column"), AccessDeniedError),
        (pymysql.OperationalError(3118, "Account is locked"), AccessDeniedError),
        (pymysql.OperationalError(1381, "You are not using binary logging"), ServerSetupError),
        (pymysql.OperationalError(2003, "Can't connect to MySQL server"), ConnectionLostError),
        (pymysql.OperationalError(2013, "Lost connection"), ConnectionLostError),
        (pymysql.OperationalError(1053, "Server shutdown in progress"), ConnectionLostError),
        (pymysql.OperationalError(1040, "Too many connections"), ConnectionLostError),
        (pymysql.OperationalError(1461, "Can't create more statements"), ConnectionLostError),
        (pymysql.OperationalError(1041, "Out of memory"), ConnectionLostError),
        (pymysql.OperationalError(1135, "Can't create a new thread"), ConnectionLostError),
        (pymysql.OperationalError(1021, "Disk full (/tmp/#sql1)"), ConnectionLostError),
        (pymysql.OperationalError(1114, "The table '/tmp/#sql1' is full"), ConnectionLostError),
        (pymysql.OperationalError(3032, "The server is in offline mode"), ConnectionLostError),
        (pymysql.OperationalError(4031, "The client was disconnected"), ConnectionLostError),
        (pymysql.InterfaceError(0, ""), ConnectionLostError),
        (BrokenPipeError(32, "Broken pipe"), ConnectionLostError),
        (pymysql.ProgrammingError(1064, "You have an error in your SQL"), SourceError),
        (pymysql.OperationalError("without a number"), SourceError),
    ],
)
def test_errors_are_distinguished(error: Exception, kind: type[SourceError]) -> None:
    translated = translate(error, statement="SELECT 1")

    assert type(translated) is kind
    assert translated.retryable == (kind is ConnectionLostError)
    assert str(translated.args[0])
    assert translated.context["statement"] == "SELECT 1"


def test_a_closed_connection_is_a_lost_one() -> None:
    connection = pymysql.connect(defer_connect=True)

    with pytest.raises(ConnectionLostError):
        query(connection, "SELECT 1")
    with pytest.raises(ConnectionLostError):
        binary_logs(connection)


def settings_by_level(server: ServerVersion, values: dict[str, str]) -> dict[Level, list[str]]:
    """Return what is found that is not right, as sentences."""
    by_level: dict[Level, list[str]] = {Level.ERROR: [], Level.WARNING: []}
    for finding in list_settings(server, values):
        if finding.level is not Level.OK:
            by_level[finding.level].append(str(finding))
    return by_level


@pytest.mark.parametrize("server", [MYSQL_97, MARIADB])
def test_good_settings_have_no_problems(server: ServerVersion) -> None:
    good = GOOD | {"binlog_row_metadata": "FULL", "gtid_mode": "ON", "server_id": "7"}

    assert settings_by_level(server, good) == {Level.ERROR: [], Level.WARNING: []}
    assert list_settings(server, good)[0].found == f"{server.flavor.value} {server.text}"
    for change in ({"log_bin_compress": "ON"}, {"binlog_storage_engine": ""}):
        assert settings_by_level(server, good | change) == {Level.ERROR: [], Level.WARNING: []}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"binlog_row_metadata": "MINIMAL"}, "needs SELECT on the tables: SET PERSIST"),
        ({"binlog_row_image": "MINIMAL"}, "other keys is stale until it is reloaded: SET PERSIST"),
        (
            {"binlog_row_value_options": "PARTIAL_JSON", "binlog_row_image": "MINIMAL"},
            "partial updates change: their tables are quarantined: SET PERSIST",
        ),
        ({"gtid_mode": "OFF"}, "cannot follow a failover"),
    ],
)
def test_what_works_less_well_is_a_warning(change: dict[str, str], says: str) -> None:
    good = GOOD | {"binlog_row_metadata": "FULL", "gtid_mode": "ON"}

    by_level = settings_by_level(MYSQL_97, good | change)

    assert by_level[Level.ERROR] == []
    assert any(says in sentence for sentence in by_level[Level.WARNING])


def test_a_variable_of_rds_is_set_in_its_parameter_group() -> None:
    values = GOOD | {"binlog_row_metadata": "MINIMAL", "basedir": "/rdsdbbin/mysql-8.4.7.R1/"}

    repairs = {each.name: each.repair for each in list_settings(MYSQL_97, values)}

    group = "give binlog_row_metadata the value FULL in the parameter group."
    assert repairs["binlog_row_metadata"] == group


@pytest.mark.parametrize(
    ("seconds", "found", "repair"),
    [
        ("0", "for ever", ""),
        ("86400", "1 day, 0:00:00", ""),
        ("3600", "1:00:00", "SET PERSIST binlog_expire_logs_seconds = 604800;"),
    ],
)
def test_a_log_that_is_kept_for_less_than_a_day_is_a_warning(
    seconds: str, found: str, repair: str
) -> None:
    kept = check_expiry(Mock(), MYSQL_97, GOOD | {"binlog_expire_logs_seconds": seconds})

    level = Level.WARNING if repair else Level.OK
    assert (kept.found, kept.level, kept.repair) == (found, level, repair)


@pytest.mark.parametrize(
    ("server", "change", "problem"),
    [
        (
            MARIADB,
            {"binlog_format": "STATEMENT"},
            (
                "binlog_format is STATEMENT, statements hold no row changes: "
                "SET GLOBAL binlog_format = ROW; "
                "and binlog_format=ROW under [mysqld] in the option file."
            ),
        ),
        (
            MYSQL_97,
            {"binlog_format": "MIXED"},
            (
                "binlog_format is MIXED, statements hold no row changes: "
                "SET PERSIST binlog_format = ROW;"
            ),
        ),
        (
            MYSQL_57,
            {"server_id": "0"},
            (
                "server_id is 0, and the server then sends its log to nobody: "
                "SET GLOBAL server_id = 1; "
                "and server_id=1 under [mysqld] in the option file."
            ),
        ),
        (
            MYSQL_97,
            {"lower_case_table_names": "1"},
            (
                "lower_case_table_names is not 0: statements in the log then write names as their "
                "author did, and rows do not, so that a TRUNCATE could be missed. It is set for "
                "good when a server is initialised: capture from a replica that was initialised "
                "with 0."
            ),
        ),
        (
            ServerVersion(Flavor.MARIADB, (12, 3, 1), "12.3.1-MariaDB"),
            {"binlog_storage_engine": "InnoDB"},
            (
                "binlog_storage_engine is InnoDB, and this log is not read yet: remove the option, "
                "restart the server, and load the tables from snapshots."
            ),
        ),
        (
            MYSQL_97,
            {"log_bin": "OFF"},
            "the server writes no binary log: put log_bin=binlog under [mysqld] and restart it.",
        ),
    ],
)
def test_a_problem_says_what_mends_it(
    server: ServerVersion, change: dict[str, str], problem: str
) -> None:
    assert settings_by_level(server, GOOD | change)[Level.ERROR] == [problem]


def test_a_log_that_is_not_in_files_is_refused_by_the_first_query(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = ServerVersion(Flavor.MARIADB, (12, 3, 1), "12.3.1-MariaDB")
    monkeypatch.setattr(queries, "server_version", lambda _: server)
    variables = GOOD | {"binlog_storage_engine": "innodb", "log_bin_basename": "/data/binlog"}
    monkeypatch.setattr(queries, "global_variables", lambda _: variables)
    connection: Any = None

    with pytest.raises(ServerSetupError, match="binlog_storage_engine is innodb"):
        Connections(ConnectionSettings("db", 3306, "root")).check(connection)


def test_the_triggerer_loads_neither_numpy_nor_pyarrow_for_a_query() -> None:
    hide = (
        "import sys; sys.modules.update(dict.fromkeys(['numpy', 'pyarrow', 'fsspec', 'airflow']))"
    )
    load = "import airflow_provider_binlog.transport.server.queries"

    subprocess.run([sys.executable, "-c", f"{hide}; {load}"], check=True)
