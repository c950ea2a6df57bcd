"""Whatever a server sends, what comes out is an answer or an error of our tree, and in bounds."""

from __future__ import annotations

import itertools
import struct
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_binlog.errors import (
    BinlogError,
    ConnectionLostError,
    FormatError,
    SourceError,
)
from airflow_provider_binlog.transport.server import driver, queries, setup
from airflow_provider_binlog.transport.server.driver import ServerConnection, ended_by, query
from airflow_provider_binlog.transport.server.information_schema import read_server_tables
from tests.support.fake_server import EOF, OK, FakeServer, Session, column, error, row_of
from tests.support.wire import lenenc
from tests.unit.transport.server.answers import answer, answering, settings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Script = Callable[[Session], None]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", FormatError),
        (b"\xfb/etc/passwd", FormatError),  # LOAD DATA LOCAL INFILE
        (b"\xfc\x01", FormatError),
        (b"\xfe", FormatError),
        (b"\xff\x01", FormatError),
        (error(1064, "You have an error"), SourceError),
    ],
)
def test_what_is_no_result_set_is_refused(body: bytes, kind: type[BinlogError]) -> None:
    with pytest.raises(kind) as caught:
        answer(lambda client: client.packet(body))

    assert caught.value.context["statement"] == "SELECT 1"
    assert not caught.value.retryable


@pytest.mark.parametrize(
    "packets",
    [
        [lenenc(1), column("a"), OK],
        [lenenc(1), column("a")[:-3], EOF],
        [lenenc(2), column("a"), column("b"), EOF, row_of(["1"]), EOF],
        [lenenc(1), column("a"), EOF, b"\x09short", EOF],
        [lenenc(1), column("a"), EOF, b"\x02\xff\xfe", EOF],
    ],
)
def test_result_sets_that_are_cut_or_damaged_are_refused(packets: list[bytes]) -> None:
    def script(client: Session) -> None:
        for each in packets:
            client.packet(each)

    with pytest.raises(FormatError, match="breaks the protocol"):
        answer(script)


@settings(max_examples=60)
@given(st.lists(st.binary(max_size=40), max_size=6), st.booleans())
def test_any_answer_is_rows_or_an_error_of_ours(bodies: list[bytes], columns: bool) -> None:
    def script(client: Session) -> None:
        for body in [lenenc(1), column("a"), EOF][: 3 * columns] + bodies:
            client.packet(body)

    with suppress(BinlogError):
        assert isinstance(answer(script), list)


def test_an_answer_that_is_cut_anywhere_is_a_lost_connection() -> None:
    bodies = [lenenc(1), column("a"), EOF, row_of(["1"]), EOF]
    wire = b"".join(
        len(body).to_bytes(3, "little") + bytes([number]) + body
        for number, body in enumerate(bodies, 1)
    )

    for size in range(0, len(wire), 3):
        with pytest.raises(ConnectionLostError):
            answer(lambda client, size=size: client.raw(wire[:size]))  # type: ignore[misc]
    assert answer(lambda client: client.raw(wire)) == [{"a": "1"}]


def test_rows_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "ANSWER_BYTES_MAX", 1 << 20)

    def endless(client: Session) -> None:
        for body in (lenenc(1), column("a"), EOF):
            client.packet(body)
        while True:
            client.packet(row_of(["x" * 100]))

    with pytest.raises(SourceError, match="too large") as caught:
        answer(endless)
    assert caught.value.context["statement"] == "SELECT 1"


def test_columns_without_end_are_refused() -> None:
    def endless(client: Session) -> None:
        client.packet(lenenc(1 << 40))
        while True:
            client.packet(column("a"))

    with pytest.raises(FormatError, match="more columns"):
        answer(endless)


class Clock:
    """A clock that moves by as much as it is set to, whenever it is read."""

    def __init__(self) -> None:
        self.seconds, self.step = 0.0, 0.0

    def __call__(self) -> float:
        self.seconds += self.step
        return self.seconds


@pytest.fixture
def slow() -> Iterator[tuple[ServerConnection, Clock]]:
    """A connection to a server that answers every statement, and the clock that it looks at."""

    def script(client: Session) -> None:
        client.log_in()
        while client.read():
            client.rows(["a"], *(["1"] for _ in range(50)))

    clock = Clock()
    with FakeServer(script) as server:
        connection = ServerConnection(
            host="127.0.0.1", port=server.port, user="u", ssl_disabled=True, autocommit=True,
            connect_timeout=10, read_timeout=60, query_timeout=600, clock=clock,
            init_command="DO 0",
        )  # fmt: skip
        yield connection, clock
        connection._force_close()


@pytest.mark.fault("stalled")
def test_an_answer_has_a_deadline(slow: tuple[ServerConnection, Clock]) -> None:
    connection, clock = slow
    clock.step = 1
    assert len(query(connection, "SELECT 1")) == 50

    clock.step = 20  # as if the server sent a few bytes in this time
    with pytest.raises(ConnectionLostError, match="in full in time") as caught:
        query(connection, "SELECT 1")

    assert caught.value.context | {"statement": ""} == {
        "statement": "", "phase": "query", "seconds": 600,
    }  # fmt: skip


def test_a_login_has_a_deadline() -> None:
    clock = Clock()
    clock.step = 30
    with FakeServer(Session.log_in) as server, pytest.raises(ConnectionLostError) as caught:
        ServerConnection(
            host="127.0.0.1", port=server.port, user="u", ssl_disabled=True,
            connect_timeout=10, read_timeout=60, query_timeout=600, clock=clock,
        )  # fmt: skip

    assert caught.value.context == {"phase": "login", "seconds": 70}


@pytest.mark.parametrize(
    "answers",
    [
        {},
        {"SELECT VERSION": (["version"], [])},
        {"SELECT VERSION": (["other"], [["9.7.0"]])},
        {"SELECT VERSION": (["version"], [["9.7.0"]]), "SHOW BINARY": (["File"], [["binlog.1"]])},
        {
            "SELECT VERSION": (["version"], [["9.7.0"]]),
            "SHOW BINARY": (["File", "Position"], [["binlog.000001", "many"]]),
        },
    ],
)
def test_rows_that_are_not_what_was_queried_are_refused(answers: Any) -> None:
    with FakeServer(answering(answers)) as server:
        connection = settings_of(server).connect()
        with closing(connection), pytest.raises(BinlogError):
            queries.log_end(connection)


def test_the_size_of_an_encrypted_file_is_that_of_its_log() -> None:
    """MySQL 8.0.33 with binlog_encryption=ON: the last event of the first file ends at 853."""
    answer = ["Log_name", "File_size", "Encrypted"]
    files: list[list[str | None]] = [["binlog.000001", "1365", "Yes"], ["binlog.000002", "9", "No"]]
    with (
        FakeServer(answering({"SHOW BINARY LOGS": (answer, files)})) as server,
        closing(settings_of(server).connect()) as connection,
    ):
        sizes = [each.size for each in queries.binary_logs(connection)]

    assert sizes == [853, 9]


def test_a_node_of_a_cluster_that_does_not_log_what_it_applies_is_refused() -> None:
    values: list[list[str | None]] = [["log_slave_updates", "OFF"], ["wsrep_on", "ON"]]
    answers = {"SHOW GLOBAL VARIABLES": (["Variable_name", "Value"], values)}
    with (
        FakeServer(answering(answers)) as server,
        closing(settings_of(server).connect()) as connection,
    ):
        problem = setup.find_replica_problem(connection)

    assert problem.startswith("the server is a node of a Galera cluster")
    assert "log_slave_updates=ON" in problem


def test_the_error_of_a_connection_survives_the_rollback() -> None:
    def script(client: Session) -> None:
        client.log_in()
        for statement in iter(client.read, b""):
            if b"TABLE_SCHEMA" in statement:
                return  # and so disconnects, in the middle of the transaction
            if b"VERSION" in statement:
                client.rows(["version"], ["9.7.0"])
            else:
                client.packet(OK)

    with FakeServer(script) as server:
        connection = settings_of(server).connect()
        with closing(connection), pytest.raises(ConnectionLostError, match="Lost connection"):
            read_server_tables(connection, [("shop", "t")])


def test_a_connection_that_is_closed_needs_no_end() -> None:
    def script(client: Session) -> None:
        client.log_in()
        client.read()
        client.packet(OK)

    with FakeServer(script) as server:
        connection = settings_of(server).connect()
        with ended_by(connection, "ROLLBACK"):
            query(connection, "START TRANSACTION")
            connection._force_close()  # type: ignore[attr-defined]
        with pytest.raises(KeyError), ended_by(connection, "ROLLBACK"):
            raise KeyError


def test_packets_out_of_order_are_refused() -> None:
    numbers = itertools.count(5)

    def script(client: Session) -> None:
        client.sequence = next(numbers)
        client.packet(OK)

    with pytest.raises(SourceError, match="sequence"):
        answer(script)


def test_a_server_status_of_more_results_without_end_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(driver, "ANSWER_BYTES_MAX", 1 << 16)
    more = b"\0\0\0" + struct.pack("<HH", 0x0008, 0)

    def endless(client: Session) -> None:
        while True:
            client.packet(more)

    with pytest.raises(SourceError, match="too large"):
        answer(endless)
