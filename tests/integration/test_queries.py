"""Queries of real servers: each answer beside the server's own, each refusal made to happen.

The servers are this module's own: it resets their logs and breaks their settings.
"""

from __future__ import annotations

import re
import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import pymysql
import pytest
from pymysql.cursors import SSDictCursor

from airflow_provider_binlog.checkpoint import Checkpoint
from airflow_provider_binlog.errors import (
    AccessDeniedError,
    ConnectionLostError,
    ForeignPositionError,
    PositionPurgedError,
    ServerSetupError,
    SourceError,
)
from airflow_provider_binlog.position import FIRST_OFFSET, Flavor, Position, SourceIdentity
from airflow_provider_binlog.sources.state import read_server_state
from airflow_provider_binlog.transport.server import queries
from airflow_provider_binlog.transport.server.driver import query
from airflow_provider_binlog.transport.server.queries import global_variables
from airflow_provider_binlog.transport.server.setup import check_setup
from tests.services.servers import Server

pytestmark = pytest.mark.server

if TYPE_CHECKING:
    from collections.abc import Iterator

Connection: TypeAlias = "pymysql.Connection[Any]"


@pytest.fixture(scope="module", params=["mysql97", "mariadb1011", "mariadb118"])
def own_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server that nobody else uses."""
    server = Server.create(request.param, tmp_path_factory.mktemp(request.param))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def connection(own_server: Server) -> Iterator[Connection]:
    """A connection as root, to a log of two files with transactions in each."""
    with closing(connect(own_server)) as connection:
        reset(connection)
        run(connection, "DROP DATABASE IF EXISTS shop")
        run(connection, "CREATE DATABASE shop")
        run(connection, "CREATE TABLE shop.orders (id INT PRIMARY KEY AUTO_INCREMENT, note TEXT)")
        fill(connection, 3)
        run(connection, "FLUSH BINARY LOGS")
        fill(connection, 3)
        yield connection


@pytest.fixture
def account(connection: Connection) -> Iterator[str]:
    """The name of an account that may do nothing yet; `connect` gives its connection."""
    run(connection, "CREATE USER 'cap`ture'@'127.0.0.1' IDENTIFIED BY 'secret'")
    yield "cap`ture"
    run(connection, "DROP USER 'cap`ture'@'127.0.0.1'")


def connect(server: Server, user: str = "root", password: str = "", **options: Any) -> Connection:
    """Return a connection."""
    return pymysql.connect(
        host=server.host, port=server.port, user=user, password=password, autocommit=True, **options
    )


def run(connection: Connection, statement: str, *arguments: object) -> list[tuple[Any, ...]]:
    """Return the rows of a statement."""
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments or None)
        return list(cursor.fetchall())


def fill(connection: Connection, count: int) -> None:
    """Commit that many transactions."""
    for _ in range(count):
        run(connection, "INSERT INTO shop.orders (note) VALUES ('some text to make it longer')")


def is_mariadb(connection: Connection) -> bool:
    """Whether the server is a MariaDB."""
    return "MariaDB" in run(connection, "SELECT VERSION()")[0][0]


def reset(connection: Connection) -> None:
    """Forget the log and its GTIDs."""
    old_words = is_mariadb(connection) or run(connection, "SELECT VERSION()")[0][0] < "8.4"
    run(connection, "RESET MASTER" if old_words else "RESET BINARY LOGS AND GTIDS")


def events(connection: Connection, file: str) -> list[tuple[int, str]]:
    """Return offset and type of every event of a file."""
    return [(row[1], row[2]) for row in run(connection, "SHOW BINLOG EVENTS IN %s", file)]


def boundary(connection: Connection) -> Position:
    """Return the boundary before the last transaction of the log, with the GTIDs before it."""
    file = queries.log_end(connection).file
    offset = [start for start, kind in events(connection, file) if kind == "Gtid"][-1]
    executed = queries.gtid_executed(connection)
    if is_mariadb(connection):
        return Position(file, offset, queries.gtid_at(connection, Position(file, offset)))
    uuid, _, last = executed.rpartition(":1-")
    return Position(file, offset, f"{uuid}:1-{int(last) - 1}")


def test_identify(connection: Connection) -> None:
    identity = queries.identify(connection)

    if is_mariadb(connection):
        uid = run(connection, "SELECT @@server_uid")[0][0]
        assert identity == SourceIdentity(Flavor.MARIADB, uid, "binlog")
    else:
        uuid = run(connection, "SELECT @@server_uuid")[0][0]
        assert identity == SourceIdentity(Flavor.MYSQL, uuid, "binlog")


def test_the_log_ends_where_its_last_file_ends(connection: Connection, own_server: Server) -> None:
    end = queries.log_end(connection)

    size = (own_server.data / "binlog.000002").stat().st_size
    assert end == Position("binlog.000002", size, None)
    fill(connection, 1)
    assert queries.log_end(connection).coordinates > end.coordinates


def test_the_files_of_the_log(connection: Connection, own_server: Server) -> None:
    files = ["binlog.000001", "binlog.000002"]

    assert queries.binary_logs(connection) == [
        (file, (own_server.data / file).stat().st_size) for file in files
    ]
    assert queries.first_position(connection) == Position("binlog.000001", FIRST_OFFSET)


def test_global_variables(connection: Connection) -> None:
    found = global_variables(connection)

    assert found["binlog_row_metadata"] == "FULL"
    assert found["log_bin"] == "ON"
    assert ("server_uuid" in found) != is_mariadb(connection)


def test_gtids(connection: Connection) -> None:
    executed = queries.gtid_executed(connection)
    end = queries.log_end(connection)

    if is_mariadb(connection):
        assert re.fullmatch(r"0-\d+-\d+", executed)
        assert queries.gtid_at(connection, end) == executed
        assert queries.gtid_at(connection, replace(end, offset=5)) is None
    else:
        assert executed == run(connection, "SELECT @@GLOBAL.gtid_executed")[0][0]
        assert executed.endswith(":1-9")
        assert queries.gtid_at(connection, end) is None


def test_any_cursor_class_will_do(connection: Connection, own_server: Server) -> None:
    with closing(connect(own_server, cursorclass=SSDictCursor)) as other:
        assert queries.identify(other) == queries.identify(connection)
        assert queries.log_end(other).file == queries.log_end(connection).file
        check_setup(other)


def test_a_server_that_is_set_up_passes(connection: Connection) -> None:
    check_setup(connection)


WRONG = {
    "binlog_format": "STATEMENT",
}


def test_every_wrong_setting_is_reported_at_once_with_its_remedy(
    connection: Connection, own_server: Server, account: str
) -> None:
    there = {name: value for name, value in WRONG.items() if name in variables(connection)}
    for name, value in there.items():
        run(connection, f"SET GLOBAL {name} = {value}")

    with closing(connect(own_server, account, "secret")) as other:
        with pytest.raises(ServerSetupError, match="cannot be captured yet") as caught:
            check_setup(other)
        message = str(caught.value)
        assert all(f"{name} is {value}, " in message for name, value in there.items())
        assert message.count("(") - 1 == len(there) + 2
        for statement in re.findall(r"(?:SET (?:GLOBAL|PERSIST)|GRANT) [^;]*;", message):
            run(connection, statement)
    with closing(connect(own_server, account, "secret")) as other:
        check_setup(other)


def variables(connection: Connection) -> set[str]:
    """Return the names of the server's variables."""
    return {row[0] for row in run(connection, "SHOW GLOBAL VARIABLES")}


@pytest.mark.parametrize("privilege", ["REPLICATION SLAVE", "REPLICATION CLIENT"])
def test_a_missing_privilege_is_reported_with_its_grant(
    connection: Connection, own_server: Server, account: str, privilege: str
) -> None:
    other_one = {"REPLICATION SLAVE", "REPLICATION CLIENT"} - {privilege}
    run(connection, f"GRANT {other_one.pop()} ON *.* TO 'cap`ture'@'127.0.0.1'")

    other = connect(own_server, account, "secret")
    with closing(other), pytest.raises(AccessDeniedError, match=f"lacks {privilege} ") as caught:
        check_setup(other)
    grant = f"GRANT {privilege} ON *.* TO `cap``ture`@`127.0.0.1`;"
    assert grant in str(caught.value)
    assert "(2)" not in str(caught.value)


def test_a_role_may_bring_the_privileges(
    connection: Connection, own_server: Server, account: str
) -> None:
    run(connection, "CREATE ROLE replicator")
    run(connection, "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO replicator")
    run(connection, "GRANT replicator TO 'cap`ture'@'127.0.0.1'")
    what = "replicator FOR" if is_mariadb(connection) else "replicator TO"
    run(connection, f"SET DEFAULT ROLE {what} 'cap`ture'@'127.0.0.1'")

    try:
        with closing(connect(own_server, account, "secret")) as other:
            check_setup(other)
    finally:
        run(connection, "DROP ROLE replicator")


def test_without_a_privilege_the_log_is_not_shown(
    connection: Connection, own_server: Server, account: str
) -> None:
    with closing(connect(own_server, account, "secret")) as other:
        with pytest.raises(AccessDeniedError, match="code=1227"):
            queries.log_end(other)
        with pytest.raises(AccessDeniedError, match="code=1227"):
            queries.binary_logs(other)
        assert queries.identify(other) == queries.identify(connection)


@pytest.mark.parametrize("gtids", ["known", "unknown"])
def test_positions_of_the_log_hold(connection: Connection, gtids: str) -> None:
    (first, first_size), (last, last_size) = queries.binary_logs(connection)
    executed = queries.gtid_executed(connection)
    before_last = boundary(connection)
    positions = [
        Position(first, FIRST_OFFSET),
        Position(first, first_size, queries.gtid_at(connection, Position(first, first_size))),
        Position(last, FIRST_OFFSET),
        before_last,
        Position(last, last_size, executed),
    ]

    for position in positions:
        held = position if gtids == "known" else replace(position, gtid=None)
        queries.check_position(connection, held)


def test_the_bytes_between_positions_are_those_of_the_files(connection: Connection) -> None:
    (first, first_size), (last, last_size) = queries.binary_logs(connection)
    begin, end = Position(first, FIRST_OFFSET), Position(last, last_size)

    assert queries.bytes_between(connection, begin, end) == first_size - 4 + last_size
    assert queries.bytes_between(connection, end, end) == 0
    assert queries.bytes_between(connection, Position(last, 4), end) == last_size - 4


@pytest.mark.fault("failover-refused", servers="mysql97 mariadb1011 mariadb118")
def test_a_checkpoint_of_another_server_is_refused(
    connection: Connection, own_server: Server
) -> None:
    here, end = queries.identify(connection), queries.log_end(connection)
    flavor = {Flavor.MYSQL: Flavor.MARIADB, Flavor.MARIADB: Flavor.MYSQL}[here.flavor]

    for other in (
        replace(here, server="ffffffff-0000-0000-0000-000000000000"),
        replace(here, flavor=flavor),
        replace(here, log_name="mysql-bin"),
    ):
        saved = Checkpoint(other, end, 1, "", "")
        with pytest.raises(ForeignPositionError, match="another server, or to a log of another"):
            read_server_state(lambda: connect(own_server), saved, start=None)


def test_a_purged_position_is_refused(connection: Connection) -> None:
    first = queries.first_position(connection)
    for _ in range(100):  # MariaDB keeps a file while the engine has not written all of it out
        run(connection, "PURGE BINARY LOGS TO 'binlog.000002'")
        if len(queries.binary_logs(connection)) == 1:
            break
        time.sleep(0.1)

    with pytest.raises(PositionPurgedError, match=r"oldest=binlog\.000002:4"):
        queries.check_position(connection, first)
    queries.check_position(connection, boundary(connection))


def test_a_position_after_the_end_is_refused(connection: Connection) -> None:
    end = queries.log_end(connection)

    with pytest.raises(ForeignPositionError, match="after the end of the log"):
        queries.check_position(connection, Position("binlog.000003", 4))
    with pytest.raises(ForeignPositionError, match=f"end of its file.*file_size={end.offset}"):
        queries.check_position(connection, replace(end, offset=end.offset + 1))


def test_a_position_inside_an_event_is_refused(connection: Connection) -> None:
    end = queries.log_end(connection)

    for offset in (end.offset - 1, end.offset - 20):
        with pytest.raises(ForeignPositionError, match="no transaction begins"):
            queries.check_position(connection, replace(end, offset=offset))


def test_a_position_inside_a_transaction_is_refused_on_mysql(connection: Connection) -> None:
    if is_mariadb(connection):
        pytest.skip("MariaDB recognizes the start of an event, but not that of a transaction")
    end = queries.log_end(connection)
    inside = [
        (offset, kind)
        for offset, kind in events(connection, end.file)
        if kind in {"Query", "Table_map", "Write_rows", "Xid"}
    ]

    assert len(inside) == 12
    for offset, kind in inside:
        with pytest.raises(ForeignPositionError, match=f"found={kind}"):
            queries.check_position(connection, replace(end, offset=offset))


def test_a_log_that_was_reset_is_found_out(connection: Connection) -> None:
    position = boundary(connection)
    queries.check_position(connection, position)

    reset(connection)
    with pytest.raises(ForeignPositionError):
        queries.check_position(connection, position)
    run(connection, "FLUSH BINARY LOGS")
    fill(connection, 2)
    with pytest.raises(ForeignPositionError):
        queries.check_position(connection, position)


@pytest.mark.parametrize("where", ["inside", "at the file's start"])
def test_a_log_that_was_reset_and_grew_again_is_found_out(
    connection: Connection, where: str
) -> None:
    position = boundary(connection)
    if where != "inside":
        start = replace(position, offset=FIRST_OFFSET)
        position = replace(start, gtid=queries.gtid_at(connection, start) or position.gtid)
    queries.check_position(connection, replace(position, gtid=None))

    reset(connection)
    run(connection, "FLUSH BINARY LOGS")
    fill(connection, 30)

    # Now there is a file of this name that is long enough, its transactions are as long as those
    # before, and the server has executed as many and more under the same server_uuid.
    with pytest.raises(ForeignPositionError, match="log was reset"):
        queries.check_position(connection, position)


def test_a_server_restored_to_an_earlier_state_is_found_out(connection: Connection) -> None:
    position = boundary(connection)
    uuid = "ffffffff-0000-0000-0000-000000000000:1-5"
    later = "0-1-999999" if is_mariadb(connection) else f"{position.gtid},{uuid}"

    with pytest.raises(ForeignPositionError, match="was reset") as caught:
        queries.check_position(connection, replace(position, gtid=later))
    assert is_mariadb(connection) or caught.value.context["unknown"] == uuid


def test_transactions_that_never_were_in_the_log_do_not_matter(connection: Connection) -> None:
    """A server that was made from a backup has `gtid_purged` set, and no file with those."""
    if is_mariadb(connection):
        pytest.skip("there is no gtid_purged")
    reset(connection)
    run(connection, "SET GLOBAL gtid_purged = 'ffffffff-0000-0000-0000-000000000000:1-5'")
    fill(connection, 3)
    uuid = run(connection, "SELECT @@server_uuid")[0][0]
    position = replace(boundary(connection), gtid=f"{uuid}:1-2")

    queries.check_position(connection, position)


def test_a_lost_connection_may_be_tried_again(connection: Connection, own_server: Server) -> None:
    with closing(connect(own_server)) as other:
        run(connection, f"KILL {run(other, 'SELECT CONNECTION_ID()')[0][0]}")
        with pytest.raises(ConnectionLostError) as caught:
            queries.log_end(other)
        assert caught.value.retryable
        with pytest.raises(ConnectionLostError):
            queries.log_end(other)


def test_any_other_error_keeps_its_words(connection: Connection) -> None:
    with pytest.raises(SourceError, match=r"Unknown system variable.*code=1193") as caught:
        query(connection, "SELECT @@nosuch")
    assert not caught.value.retryable
