"""Files of real servers as a source: staged by the operator, printed by the command line."""

from __future__ import annotations

import gzip
import json
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import fsspec
import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from pymysql.cursors import DictCursor

from airflow_provider_binlog.binlog.header import GROUP_STARTS
from airflow_provider_binlog.checkpoint import Checkpoint
from airflow_provider_binlog.cli.commands import main
from airflow_provider_binlog.operators.extract import (
    BinlogCheckpointOperator,
    BinlogExtractOperator,
)
from airflow_provider_binlog.sources.binlog_source import BinlogSource
from airflow_provider_binlog.transport.files.reader import FileBlockStream
from tests.fixtures import mysql
from tests.fixtures.mysql import Database, prepare
from tests.services.servers import Server
from tests.support.compression import zstd_stream
from tests.support.lake import aws_connection
from tests.support.staged import apply_all
from tests.support.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.services.s3 import S3Server

Variables = dict[str, str]


FORMS: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".zst": zstd_stream}


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> Variables:
    """The Variables of an Airflow that there is none of."""
    held: Variables = {}
    store = SimpleNamespace(get=held.get, set=held.__setitem__)
    name = "airflow_provider_binlog.operators.extract.AirflowVariableStore"
    monkeypatch.setattr(name, lambda: store)
    return held


def stage(**arguments: Any) -> dict[str, Any]:
    context: Any = {"ti": SimpleNamespace(dag_id="shop", run_id="r", task_id="stage")}
    given = {name: arguments.pop(name) for name in ("files", "failover") if name in arguments}
    source = BinlogSource("shop", start=arguments.pop("start", None), **given)
    operator = BinlogExtractOperator(task_id="stage", source=source, **arguments)
    staged = operator.execute(context)
    save = BinlogCheckpointOperator(task_id="save", staged=staged)
    save.execute(context)
    return staged


class Shop:
    """A database whose log is copied file by file, from a fresh one on."""

    def __init__(self, database: Database) -> None:
        self.database = database
        mysql.execute(database.server, "FLUSH BINARY LOGS")
        self.first = self.files()[-1]

    def files(self) -> list[Path]:
        rows = mysql.query(self.database.server, "SHOW BINARY LOGS")
        return [self.database.server.data / row[0] for row in rows]

    def new_files(self) -> list[Path]:
        files = self.files()
        return files[files.index(self.first) :]

    def flush(self) -> None:
        mysql.execute(self.database.server, "FLUSH BINARY LOGS")

    def rows(self) -> dict[tuple[Any, ...], dict[str, Any]]:
        found = self.database.query("SELECT id, v FROM t")
        return {(key,): {"id": key, "v": value} for key, value in found}

    def copy(self, folder: str, suffix: str = "", *, upto: int | None = None) -> None:
        """Copy the files to a folder; of the newest one only some bytes."""
        files = self.new_files()
        for file in files:
            data = file.read_bytes()[: upto if file == files[-1] else None]
            with fsspec.open(f"{folder}/{file.name}{suffix}", "wb") as target:
                target.write(FORMS[suffix](data))


@pytest.fixture
def shop(database: Database) -> Shop:
    return Shop(database)


def fill(shop: Shop) -> None:
    shop.database.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
    )
    shop.flush()
    shop.database.execute("UPDATE t SET v = 'c' WHERE id = 1", "DELETE FROM t WHERE id = 2")


@pytest.fixture(params=["local", "memory", "s3"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty folder on each kind of store; Airflow and fsspec reach it."""
    if request.param == "local":
        (tmp_path / "copies").mkdir()
        return str(tmp_path / "copies")
    if request.param == "memory":
        return f"memory://{tmp_path.name}"
    s3_server: S3Server = request.getfixturevalue("s3_server")
    monkeypatch.setenv("AIRFLOW_CONN_ARCHIVE", json.dumps(aws_connection(s3_server)))
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return f"s3://lake/{tmp_path.name}"


@pytest.mark.parametrize("suffix", FORMS)
@pytest.mark.parametrize("server", ["mysql97"], indirect=True)
def test_a_folder_is_staged_as_it_grows(
    suffix: str, folder: str, shop: Shop, variables: Variables, tmp_path: Path
) -> None:
    fill(shop)
    end = shop.new_files()[-1].stat().st_size
    shop.database.execute("INSERT INTO t VALUES (3, 'd')")
    shop.copy(folder, suffix, upto=end + 100)
    arguments = {
        "files": folder.replace("s3://", "s3://archive@"),
        "staging_path": f"file://{tmp_path}/staging",
        "tables": [f"{shop.database.name}.*"],
        "start": "earliest",
    }

    staged = stage(**arguments)

    assert staged["stop"]["offset"] == end
    assert staged["changes"] == {"insert": 2, "update_postimage": 1, "delete": 1}
    with pytest.raises(AirflowSkipException):
        stage(**arguments)

    shop.flush()
    shop.copy(folder, suffix)
    staged = stage(**arguments)

    manifests, tables = apply_all(open_store(f"file://{tmp_path}/staging"), "shop")
    assert tables["t"] == shop.rows()
    assert [each.sequence for each in manifests] == [1, 2]
    assert staged["identity"]["server"] == f"server_id={shop.database.server.port}"
    assert staged["stop"]["offset"] == shop.files()[-1].stat().st_size


def test_what_a_server_began_its_files_go_on_with(
    shop: Shop, variables: Variables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = shop.database.server
    monkeypatch.setenv("AIRFLOW_CONN_BINLOG_DEFAULT", f"binlog://root@{server.host}:{server.port}")
    arguments = {
        "staging_path": f"file://{tmp_path}/staging",
        "tables": [f"{shop.database.name}.*"],
        "start": f"{shop.first.name}:4",
    }
    fill(shop)
    by_server = stage(**arguments)
    shop.database.execute("INSERT INTO t VALUES (3, 'd')")
    shop.flush()
    shop.copy(str(tmp_path), ".gz")

    by_files = stage(**arguments, files=f"{tmp_path}/binlog.*")

    _, tables = apply_all(open_store(f"file://{tmp_path}/staging"), "shop")
    assert tables["t"] == shop.rows()
    assert by_files["identity"] == by_server["identity"]

    # The same names, but not the same history.
    saved = Checkpoint.decode(variables["binlog_checkpoint_shop"])
    other = replace(saved.position, gtid="99-1-1" if server.name.startswith("maria") else "")
    variables["binlog_checkpoint_shop"] = replace(saved, position=other).encode()
    with pytest.raises(AirflowFailException, match="ForeignPositionError"):
        stage(**arguments, files=f"{tmp_path}/binlog.*")


def test_xa_over_files_and_ranges(shop: Shop, variables: Variables, tmp_path: Path) -> None:
    arguments = {
        "files": str(tmp_path),
        "staging_path": f"file://{tmp_path}/staging",
        "tables": [f"{shop.database.name}.*"],
        "start": "earliest",
    }
    fill(shop)
    prepare(shop.database, "'files'", "INSERT INTO t VALUES (7, 'x')")
    shop.flush()
    shop.copy(str(tmp_path), ".zst")
    stage(**arguments)
    shop.database.execute("XA COMMIT 'files'")
    shop.flush()
    shop.copy(str(tmp_path), ".zst")

    staged = stage(**arguments)

    _, tables = apply_all(open_store(f"file://{tmp_path}/staging"), "shop")
    assert staged["changes"] == {"insert": 1}
    assert tables["t"] == shop.rows()


def test_a_file_that_was_not_copied_is_missed(
    shop: Shop, variables: Variables, tmp_path: Path
) -> None:
    arguments = {
        "files": str(tmp_path / "copies"),
        "staging_path": f"file://{tmp_path}/staging",
        "tables": [f"{shop.database.name}.*"],
        "start": "earliest",
    }
    (tmp_path / "copies").mkdir()
    fill(shop)
    shop.flush()
    shop.copy(str(tmp_path / "copies"))
    _, second, third = sorted((tmp_path / "copies").iterdir())
    whole = second.read_bytes()

    second.unlink()
    with pytest.raises(AirflowFailException, match=f"not consecutive.*next={third.name}"):
        stage(**arguments)

    second.write_bytes(whole[:-50])
    with pytest.raises(AirflowFailException, match=f"ends inside an event.*{second.name}"):
        stage(**arguments)

    # Cut between two transactions, only the next file shows it.
    second.write_bytes(whole)
    second.write_bytes(whole[: group_starts(second)[-1]])
    with pytest.raises(AirflowFailException, match="transactions are missing before"):
        stage(**arguments)

    second.write_bytes(whole)
    stage(**arguments)
    _, tables = apply_all(open_store(f"file://{tmp_path}/staging"), "shop")
    assert tables["t"] == shop.rows()


def group_starts(path: Path) -> list[int]:
    """Return where the transactions of a file begin."""
    source = FileBlockStream([path])
    return [
        int(position)
        for block in source.blocks(source.first_position)
        for position, code in zip(block.offset, block.type, strict=True)
        if code in GROUP_STARTS
    ]


# ------------------------------------------------------------------- relay logs


@pytest.fixture(params=["mysql97", "mariadb118"])
def relay_logs(
    request: pytest.FixtureRequest,
    create_database: Callable[[Server], Database],
    tmp_path: Path,
) -> Iterator[tuple[Shop, Path]]:
    """A log that was read by a replica, and the folder of what that kept of it."""
    shop = Shop(create_database(request.getfixturevalue(request.param)))
    replica = Server.create(request.param, tmp_path / "replica")
    # It keeps what it is sent, and applies nothing.
    replica.start({"relay_log": "relay-bin", "relay_log_purge": 0})
    try:
        follow(replica, shop)
        yield shop, replica.data
    finally:
        replica.stop()


def follow(replica: Server, shop: Shop) -> None:
    """Let a replica read a log that grows, and let it begin a new file meanwhile."""
    source = shop.database.server
    if source.name.startswith("mysql"):
        what, side, who, more = "REPLICATION SOURCE", "source", "REPLICA", "get_source_public_key=1"
    else:
        what, side, who, more = "MASTER", "master", "SLAVE", "master_use_gtid=no"
    mysql.execute(
        source,
        "CREATE USER IF NOT EXISTS replicator IDENTIFIED BY 'p'",
        "GRANT REPLICATION SLAVE ON *.* TO replicator",
    )
    mysql.execute(
        replica,
        f"CHANGE {what} TO {side}_host='{source.host}', {side}_port={source.port}, "
        f"{side}_user='replicator', {side}_password='p', {side}_log_file='{shop.first.name}', "
        f"{side}_log_pos=4, {more}",
        f"START {who} IO_THREAD",
    )
    fill(shop)
    wait_for(lambda: relayed(replica, shop))
    mysql.execute(replica, "FLUSH RELAY LOGS")
    shop.database.execute("INSERT INTO t VALUES (5, 'e')")
    wait_for(lambda: relayed(replica, shop))


def relayed(replica: Server, shop: Shop) -> bool:
    """Whether the replica has all of the log."""
    is_mysql = replica.name.startswith("mysql")
    statement = "SHOW REPLICA STATUS" if is_mysql else "SHOW SLAVE STATUS"
    with closing(mysql.connect(replica)) as connection, connection.cursor(DictCursor) as cursor:
        cursor.execute(statement)
        row: Any = cursor.fetchone()
    side = "Source" if is_mysql else "Master"
    end = shop.files()[-1]
    return (row[f"{side}_Log_File"], row[f"Read_{side}_Log_Pos"]) == (end.name, end.stat().st_size)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_what_a_replica_keeps_is_a_log(
    relay_logs: tuple[Shop, Path], variables: Variables, tmp_path: Path
) -> None:
    shop, folder = relay_logs
    arguments = {
        "files": f"{folder}/relay-bin.*",
        "staging_path": f"file://{tmp_path}/staging",
        "tables": [f"{shop.database.name}.*"],
        "start": "earliest",
    }

    stage(**arguments)

    _, tables = apply_all(open_store(f"file://{tmp_path}/staging"), "shop")
    assert tables["t"] == shop.rows()
    with pytest.raises(AirflowFailException, match="more than one log"):
        stage(**(arguments | {"files": str(folder)}))


# ------------------------------------------------------------------- the command line


@pytest.mark.parametrize("suffix", FORMS)
def test_the_command_line_reads_the_same(
    suffix: str, folder: str, mysql97: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [mysql97.data / row[0] for row in mysql.query(mysql97, "SHOW BINARY LOGS")][:2]
    for file in files:
        with fsspec.open(f"{folder}/{file.name}{suffix}", "wb") as target:
            target.write(FORMS[suffix](file.read_bytes()))
    assert main(["events", *map(str, files)]) == 0
    expected = capsys.readouterr().out

    for source in (folder, f"{folder}/", f"{folder}/binlog.*"):
        assert main(["events", source]) == 0
        assert capsys.readouterr().out == expected
