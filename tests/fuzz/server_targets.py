"""What a server sends before the log: the login, and answers to statements."""

from __future__ import annotations

import io
from typing import Any, cast

from airflow_provider_binlog.errors import BinlogError
from airflow_provider_binlog.transport.server.driver import ServerConnection, query
from airflow_provider_binlog.transport.server.queries import binary_logs, identify, log_end
from tests.fuzz.targets import Target, Wrong, check_text
from tests.support.fake_server import EOF, OK, column, error, greeting, row_of
from tests.support.wire import lenenc


class _Recorded:
    """A socket that receives recorded bytes, and sends nowhere."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BufferedReader(io.BytesIO(data))

    def makefile(self, _: str) -> io.BufferedReader[Any]:
        return self._file

    def settimeout(self, _: float | None) -> None:
        pass

    def sendall(self, _: bytes) -> None:
        pass

    def close(self) -> None:
        pass


def _connection(**options: Any) -> ServerConnection:
    return ServerConnection(
        user="u", password="geheim", ssl_disabled=True, autocommit=True, defer_connect=True,
        connect_timeout=10, read_timeout=60, query_timeout=600, **options,
    )  # fmt: skip


def _packets(*bodies: bytes, sequence: int = 1) -> bytes:
    return b"".join(
        len(body).to_bytes(3, "little") + bytes([number]) + body
        for number, body in enumerate(bodies, sequence)
    )


def _log_in(data: bytes) -> None:
    connection = _connection()
    try:
        connection.connect(_Recorded(data))  # type: ignore[arg-type]
    except BinlogError:
        raise
    except Exception as found:
        # What `ConnectionSettings.connect` translates: see `answer` for that.
        if connection.open:
            raise Wrong(f"a connection that stays open: {found!r}") from found


def _answered(data: bytes) -> ServerConnection:
    connection: Any = _connection()
    connection._sock = _Recorded(data)
    connection._rfile = connection._sock.makefile("rb")
    connection._next_seq_id = 1
    connection._current_timeout = None
    connection.server_status = 2
    return cast("ServerConnection", connection)


def _answer(data: bytes) -> None:
    rows = query(_answered(data), "SELECT 1")
    if not all(isinstance(row, dict) for row in rows):
        raise Wrong("an answer of something else than rows")


def _meaning(data: bytes) -> None:
    for read in (identify, log_end, binary_logs):
        try:
            read(_answered(data))
        except BinlogError as found:
            check_text(found)


def _login_seeds() -> list[bytes]:
    head = _packets(greeting(b"caching_sha2_password"), sequence=0)
    switch = b"\xfe%s\0" + b"s" * 20 + b"\0"
    return [
        head + _packets(OK, sequence=2) + _packets(OK) + _packets(OK),
        head + _packets(b"\x01\x03", OK, sequence=2) + _packets(OK),
        head + _packets(b"\x01\x04", sequence=2) + _packets(b"\x01KEY", sequence=4),
        *(
            head + _packets(switch % plugin, sequence=2) + _packets(OK, sequence=4)
            for plugin in (b"mysql_native_password", b"sha256_password", b"dialog", b"parsec")
        ),
        head + _packets(error(1045, "Access denied"), sequence=2),
    ]


def _answer_seeds() -> list[bytes]:
    names = ("version", "File", "Position")
    return [
        _packets(OK),
        _packets(error(1064, "You have an error")),
        _packets(b"\xfb/etc/passwd"),
        _packets(lenenc(1), column("version"), EOF, row_of(["9.7.0"]), EOF),
        _packets(
            lenenc(3), *map(column, names), EOF, row_of(["9.7.0", "binlog.000001", "4"]),
            row_of([None, None, None]), EOF,
        ),
    ]  # fmt: skip


SERVER_TARGETS = (
    Target("login", _log_in, _login_seeds),
    Target("answer", _answer, _answer_seeds),
    Target("answer_read", _meaning, _answer_seeds),
)
