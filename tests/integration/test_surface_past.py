"""`rows` and `rows --verify` where the log lacks column metadata: names, signedness, ENUM's values.

What a server reports is what `SELECT` returns, or what it logs under `binlog_row_metadata=FULL`;
what it does not report, and what files lack, is printed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.cli.commands import main
from tests.fixtures.mysql import Database, flush_log
from tests.services.servers import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.server

MAX = 2**64 - 1
SPARSE = [("mariadb1011", "NO_LOG"), ("mariadb118", "MINIMAL"), ("mysql97", "MINIMAL")]

T = (
    "CREATE TABLE t (id BIGINT UNSIGNED PRIMARY KEY, v VARCHAR(20) CHARACTER SET latin1,"
    " e ENUM('a','b'), s SET('x','y'), b BINARY(3)) CHARACTER SET utf8mb4"
)
HISTORY = [
    *(T, f"INSERT INTO t VALUES ({MAX}, 'grün', 'b', 'x,y', 'q')"),
    "ALTER TABLE t RENAME COLUMN v TO w, ADD n INT FIRST",
    "UPDATE t SET n = -3",
]
LOST = [
    "CREATE TABLE lost (a BIGINT UNSIGNED, v VARCHAR(9), e ENUM('p'))",
    f"INSERT INTO lost VALUES ({MAX}, 'ü', 'p')",
    "DROP TABLE lost",
]
BEFORE = {"id": MAX, "v": "grün", "e": "b", "s": "x,y", "b": {"base64": "cQAA"}}
NULLED = {"n": None, "id": MAX, "w": "grün", "e": "b", "s": "x,y", "b": {"base64": "cQAA"}}


@dataclass(frozen=True)
class Begun:
    """A database, and a file of the log that begins with what happens in it."""

    database: Database
    file: str

    def of_server(self) -> list[str]:
        span = ["--from", f"{self.file}:4", "--table", f"{self.database.name}.*"]
        return [self.database.server.dsn, *span]

    def of_file(self) -> list[str]:
        path = self.database.server.data / self.file
        return [str(path), "--table", f"{self.database.name}.*"]

    def says_signs(self) -> bool:
        """Whether the server logs signedness and character sets, but no names or enum values."""
        return self.database.query("SELECT @@binlog_row_metadata") == [("MINIMAL",)]


def begin(server: Server, create_database: Callable[[Server], Database]) -> Begun:
    database = create_database(server)
    return Begun(database, flush_log(server))


@pytest.fixture(scope="module", params=SPARSE, ids="-".join)
def sparse_server(request: pytest.FixtureRequest, run_folder: Path) -> Iterator[Server]:
    """A server that logs little of its tables."""
    name, metadata = request.param
    server = Server.create(name, run_folder / f"{name}-{metadata}")
    server.start({"binlog_row_metadata": metadata})
    yield server
    server.stop()


@pytest.fixture
def sparse(sparse_server: Server, create_database: Callable[[Server], Database]) -> Begun:
    return begin(sparse_server, create_database)


@pytest.fixture
def full(mariadb118: Server, create_database: Callable[[Server], Database]) -> Begun:
    return begin(mariadb118, create_database)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[list[Any], list[str]]:
    """Return the values that `rows` prints, and what it says."""
    assert main(["rows", *arguments]) == 0
    out, err = capsys.readouterr()
    return [json.loads(line)["values"] for line in out.splitlines()], err.splitlines()


def verified(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["rows", "--verify", *arguments])
    return code, capsys.readouterr().out


def test_a_server_reports_what_its_log_lacks(
    sparse: Begun, capsys: pytest.CaptureFixture[str]
) -> None:
    sparse.database.execute(*HISTORY)

    values, said = printed(capsys, *sparse.of_server())

    assert values == [BEFORE, NULLED, NULLED | {"n": -3}]
    assert said == []
    code, out = verified(capsys, *sparse.of_server())
    assert count_line(sparse, "t", 2, "1 inserts, 1 updates") in out
    assert "refused   0" in out
    assert code == 0


def test_what_cannot_be_determined_is_printed(
    sparse: Begun, capsys: pytest.CaptureFixture[str]
) -> None:
    sparse.database.execute(*HISTORY, *LOST)
    signed = not sparse.says_signs()
    # The log's CREATE TABLE is not enough: it says no character set.
    numbered = {"@1": -1 if signed else MAX, "@2": "ü", "@3": 1}

    values, said = printed(capsys, *sparse.of_server())

    assert values == [BEFORE, NULLED, NULLED | {"n": -3}, numbered]
    (note,) = said
    assert f"note: {sparse.database.name}.lost: the log does not say how its columns are" in note
    assert ("which integers are unsigned (all are printed as if signed)" in note) == signed
    assert ("in which character set (UTF-8 is printed as text" in note) == signed
    assert "the values of ENUM and SET (their numbers are printed)" in note
    assert "; information_schema does not determine it: " in note
    code, out = verified(capsys, *sparse.of_server())
    (refused,) = [line for line in out.splitlines() if "table=" in line]
    assert "neither the tables staged before" in refused
    assert f"table={sparse.database.name}.lost" in refused
    assert count_line(sparse, "lost", 1, "1 inserts") in out
    assert code == 1


def test_of_files_it_is_said_for_every_table(
    sparse: Begun, capsys: pytest.CaptureFixture[str]
) -> None:
    sparse.database.execute(*HISTORY, *LOST)
    signed = not sparse.says_signs()

    values, said = printed(capsys, *sparse.of_file())

    assert values[0]["@1"] == (-1 if signed else MAX)
    assert values[0]["@2"] == ({"base64": "Z3L8bg=="} if signed else "grün")
    assert values[0]["@3"] == 2
    assert values[2]["@1"] == -3
    names = [f"note: {sparse.database.name}.{each}" for each in ("t", "lost")]
    assert [line.rpartition(": ")[0] for line in said] == names
    assert all("information_schema" not in line for line in said)
    assert all(("printed as if signed" in line) == signed for line in said)
    code, out = verified(capsys, *sparse.of_file())
    assert out.count("there is no server to query for the names") == 2
    assert code == 1


def test_what_an_image_lacks_is_not_printed(
    sparse: Begun, capsys: pytest.CaptureFixture[str]
) -> None:
    is_mysql = sparse.database.server.name == "mysql97"
    sparse.database.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, g INT AS (a * 2) VIRTUAL)",
        "SET SESSION binlog_row_image = MINIMAL",
        "INSERT INTO t (id, a) VALUES (1, 2)",
    )

    (values,), said = printed(capsys, *sparse.of_server())

    assert values == ({"id": 1, "a": 2, "g": 4} if is_mysql else {"id": 1, "a": 2})
    assert said == []
    code, out = verified(capsys, *sparse.of_server())
    assert ("with generated columns does not log their values" in out) != is_mysql
    assert code == (0 if is_mysql else 1)


def test_types_that_only_information_schema_reports(
    full: Begun, capsys: pytest.CaptureFixture[str]
) -> None:
    uuid = "01234567-89ab-4def-8123-456789abcdef"
    full.database.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, u UUID, a INET6)",
        f"INSERT INTO t VALUES (1, '{uuid}', '::1')",
    )

    (row,), said = printed(capsys, *full.of_server())
    (bytes_,), noted = printed(capsys, *full.of_file())

    assert (row, said) == ({"id": 1, "u": uuid, "a": "::1"}, [])
    assert bytes_["a"] == {"base64": "AAAAAAAAAAAAAAAAAAAAAQ=="}
    (note,) = noted
    assert "whether what looks like BINARY is UUID, INET or VECTOR" in note


def count_line(begun: Begun, table: str, count: int, changes: str) -> str:
    return f"  {f'{begun.database.name}.{table}':<30}{count:>12}  {changes}\n"
