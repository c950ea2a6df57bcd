"""Names, comments and requests that a server sends to do harm: quoted, bounded, or refused."""

from __future__ import annotations

from contextlib import closing, suppress
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.errors import BinlogError, FormatError
from airflow_provider_binlog.staging.paths import part_path, schema_folder
from airflow_provider_binlog.transport.server.driver import query
from airflow_provider_binlog.transport.server.information_schema import (
    list_tables,
    quote_table,
    read_server_tables,
)
from airflow_provider_binlog.transport.server.queries import log_end
from tests.support.fake_server import FakeServer, Session
from tests.unit.transport.server.answers import settings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Answer = tuple[Sequence[str], Sequence[Sequence[str | None]]]

NAMES = [
    *(
        "/../../etc/passwd",
        "..",
        "a/../b",
        "a\\..\\b",
        "nul\0",
        "quo'te\"s`",
        "`; DROP TABLE t; --",
    ),
    *("new\nline", "\r\t\x1b[2J", "%s %d {0}", "-- ", "\U0001f600", "\ufeff", "x" * 64, "SELECT"),
    *("\u202egro.elpmaxe", "a" * 65_535),
]


def answering(answer: Callable[[str], Answer | None], received: list[str]) -> FakeServer:
    """Return a server of which a function answers each statement; None is OK."""

    def script(client: Session) -> None:
        client.log_in()
        while True:
            statement = client.read()[1:].decode()
            received.append(statement)
            if (found := answer(statement)) is None:
                client.packet(b"\0\0\0\x02\0\0\0")
            else:
                client.rows(found[0], *found[1])

    return FakeServer(script)


_COLUMNS = [
    "database",
    "table",
    "name",
    "data_type",
    "column_type",
    "nullable",
    "charset",
    "octets",
]
_COLUMNS += ["extra", "printed", "comment"]
_COMMENT = "COMMENT '" + "it''s \\" * 9_000
_COLUMN = ["varchar", f"varchar(9) {_COMMENT}", "YES", "utf8mb4", "36"]
_INDEX = ["database", "table", "Key_name", "Column_name", "Sub_part", "Index_type"]
_ANSWERS: dict[str, Answer] = {
    "VERSION()": (["version"], [["9.7.0"]]),
    "BINARY LOG STATUS": (["File", "Position"], [["binlog.000001", "4"]]),
    "LIMIT 0": (["1"], []),
    ".TABLES": (
        ["database", "name", "table", "kind", "engine", "transactions", "comment"],
        [[*[name] * 3, "BASE TABLE", "InnoDB", "YES", _COMMENT] for name in NAMES],
    ),
    ".COLUMNS": (_COLUMNS, [[*[name] * 3, *_COLUMN, *[_COMMENT] * 3] for name in NAMES]),
    ".STATISTICS": (_INDEX, [[*[name] * 2, "PRIMARY", name, None, "BTREE"] for name in NAMES]),
}


def as_tables(statement: str) -> Answer | None:
    """Answer as a server with a table of each name in a database of the same name."""
    return next((_ANSWERS[each] for each in _ANSWERS if each in statement), None)


def test_any_name_is_quoted_in_every_statement() -> None:
    received: list[str] = []
    with (
        answering(as_tables, received) as server,
        closing(settings_of(server).connect()) as connection,
    ):
        found = read_server_tables(connection, [(name, name) for name in NAMES])

    assert found.tables.keys() == {(each, each) for each in NAMES}
    for name in NAMES:
        assert {column.name for column in found.tables[name, name].columns} == {name}
        assert found.tables[name, name].comment == _COMMENT
        assert f"SELECT SQL_NO_CACHE * FROM {quote_table((name, name))} LIMIT 0" in received
    own = [each for each in received if "TABLE_SCHEMA IN (" in each]
    assert own
    assert all(each.count(r"'quo\'te\"s`'") == 2 for each in own)
    assert any("'nul\\0'" in each for each in own)


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:20])
def test_no_name_leaves_its_folder(name: str) -> None:
    for path in (part_path(name, name, 1, 0, "a"), f"{schema_folder('shop', name, name)}/1.json"):
        assert path.isascii()
        assert path.isprintable()
        assert ".." not in path.split("/")
        assert all(0 < len(each) <= 255 for each in path.split("/"))
        assert path.count("/") in (2, 4)


@pytest.mark.parametrize("file", [*NAMES, "binlog.", "binlog.000001/../x", ".000001", "binlog.-1"])
def test_a_log_of_any_name_is_one_or_an_error_of_ours(file: str) -> None:
    def answer(statement: str) -> Answer | None:
        if "STATUS" in statement:
            return ["File", "Position"], [[file, "4"]]
        return as_tables(statement)

    with (
        answering(answer, []) as server,
        closing(settings_of(server).connect()) as connection,
        suppress(BinlogError),
    ):
        assert log_end(connection).file_number >= 0


def test_rows_that_lack_a_column_are_refused() -> None:
    with (
        answering(lambda _: (["database"], [["shop"]]), []) as server,
        closing(settings_of(server).connect()) as connection,
        pytest.raises(FormatError, match="breaks the protocol"),
    ):
        list_tables(connection)


@pytest.mark.parametrize("file", [b"/etc/passwd", b"../../.ssh/id_rsa", b""])
def test_no_file_is_sent_to_a_server_that_requests_one(file: bytes) -> None:
    def script(client: Session) -> None:
        client.log_in()
        client.read()
        client.packet(b"\xfb" + file)
        client.read()

    with (
        FakeServer(script) as server,
        closing(settings_of(server).connect()) as connection,
        pytest.raises(FormatError),
    ):
        query(connection, "SELECT 1")
    (session,) = server.sessions

    assert all(packet[:1] in (b"\x03", b"\x01") for packet in session.received[1:])
