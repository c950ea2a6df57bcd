"""GTID sets as a start, as a stop, and as the position of a failover."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import count
from shutil import rmtree
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.capture.extract import extract
from airflow_provider_binlog.capture.log_range import TableFilter
from airflow_provider_binlog.checkpoint import Checkpoint, advance, load
from airflow_provider_binlog.errors import (
    ConfigurationError,
    ForeignPositionError,
    PositionPurgedError,
    SourceError,
)
from airflow_provider_binlog.position import FIRST_OFFSET, Position
from airflow_provider_binlog.sources.server_log import ServerLog
from airflow_provider_binlog.sources.settings import ConnectionSettings
from airflow_provider_binlog.sources.state import SourceState
from airflow_provider_binlog.spark.target.properties import IDENTITY as IDENTITY_PROPERTY
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.table_options import TableOptions, TableRules
from tests.fixtures.mysql import Database, execute, flush_log, prepare, purge, query
from tests.fixtures.proxy import Proxy
from tests.integration.test_xa import Ranges
from tests.services.servers import Server
from tests.support.requests import a_request
from tests.support.staged import manifests_after
from tests.support.stores import Checkpoints, open_store
from tests.unit.spark.history import IDENTITY, Source, Table
from tests.unit.spark.staged_changes import INT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.staging.object_store import ObjectStore
    from tests.unit.spark.workplace import Workplace

pytestmark = pytest.mark.server

KEY = "checkpoint"
_numbers = count()
TABLES = [
    "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(200))",
    # Without a key: what is staged twice is there twice.
    "CREATE TABLE visits (page VARCHAR(20))",
]


class Pair:
    """A source and its replica, each with a database `shop`."""

    def __init__(self, source: Server, replica: Server) -> None:
        self.source = Database(source, "shop")
        self.replica = Database(replica, "shop")
        self.mariadb = source.name.startswith("mariadb")

    def start(self) -> None:
        """Start both, and replicate."""
        options: dict[str, str | int] = {"log_bin": "other"}
        logs_what_it_applies: dict[str, str | int] = {}
        if self.mariadb:
            logs_what_it_applies = {"log_slave_updates": "ON"}
            options |= {"slave_parallel_threads": 4}
        else:
            options |= {"replica_preserve_commit_order": "OFF"}
        self.source.server.start(logs_what_it_applies)
        self.replica.server.start(options | logs_what_it_applies)
        self._connect()

    def turn_round(self) -> None:
        """Let what was the replica be the source: the other one replicates it from now on."""
        self.replicate("STOP")
        self.source, self.replica = self.replica, self.source
        if self.mariadb:
            execute(self.replica.server, "SET GLOBAL gtid_slave_pos = @@GLOBAL.gtid_binlog_pos")
        self._connect()

    def _connect(self) -> None:
        port = self.source.server.port
        if self.mariadb:
            execute(
                self.replica.server,
                f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port},"
                " MASTER_USER='root', MASTER_CONNECT_RETRY=1, MASTER_USE_GTID=slave_pos",
            )
        else:
            execute(
                self.replica.server,
                f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={port},"
                " SOURCE_USER='root', SOURCE_CONNECT_RETRY=1, SOURCE_AUTO_POSITION=1,"
                " GET_SOURCE_PUBLIC_KEY=1",
            )
        self.replicate("START")

    def replicate(self, verb: str) -> None:
        """Start or stop the replica's threads."""
        execute(self.replica.server, f"{verb} {'SLAVE' if self.mariadb else 'REPLICA'}")

    def catch_up(self) -> None:
        """Wait until the replica has applied all."""
        variable, wait = (
            ("gtid_binlog_pos", "MASTER_GTID_WAIT")
            if self.mariadb
            else ("gtid_executed", "WAIT_FOR_EXECUTED_GTID_SET")
        )
        ((gtids,),) = query(self.source.server, f"SELECT @@GLOBAL.{variable}")
        # Several times: one of 120 seconds has timed out on MariaDB while nothing was left to send.
        for _ in range(24):
            ((outcome,),) = query(self.replica.server, f"SELECT {wait}(%s, 5)", gtids)
            if outcome == 0:
                return
        status = f"SHOW {'SLAVE' if self.mariadb else 'REPLICA'} STATUS"
        pytest.fail(f"{gtids}: {query(self.replica.server, status)}")


@pytest.fixture(params=["mysql97", "mariadb118"])
def pair(request: pytest.FixtureRequest, run_folder: Path) -> Iterator[Pair]:
    """Two servers of their own, the second of which replicates the first one."""
    name = request.param
    servers = [Server.create(name, run_folder / f"failover-{next(_numbers)}") for _ in range(2)]
    pair = Pair(*servers)
    try:
        pair.start()
        yield pair
    finally:
        for server in servers:
            # In good order it takes MySQL ten seconds, once a replica has read from it.
            if server.alive:
                server.kill()


def settings_of(server: Server) -> ConnectionSettings:
    return ConnectionSettings.from_dsn(server.dsn)


class Capture(Ranges):
    """Captures run after run, from whichever server, as the operators do."""

    def __init__(self, database: Database, store: ObjectStore | None = None) -> None:
        super().__init__(database)
        self.checkpoints = Checkpoints()
        if store is not None:
            self.store, self.log = store, ManifestLog(store, "shop")

    def state(self, server: Server, **options: Any) -> SourceState:
        """Return the state of the source on a server."""
        log = ServerLog(settings_of(server), **options)
        start = Position("binlog.000001", FIRST_OFFSET).to_json()
        return log.read_state(load(self.checkpoints, KEY), start=start)

    def run(self, server: Server, *, moves: bool = True, **options: Any) -> Manifest:
        """Stage up to the end of a server's log, and move the checkpoint."""
        log = ServerLog(settings_of(server), **options)
        state = self.state(server, **options)
        assert state.has_work
        saved = state.checkpoint
        start = saved.position if saved else state.start
        assert start is not None
        with closing(log):
            (manifest,) = extract(
                a_request(
                    start,
                    state.log_end,
                    identity=state.identity,
                    issued_by=saved.identity if saved else None,
                    find_gtids=log.resolve,
                    sequence=saved.sequence + 1 if saved else 1,
                    tables=TableFilter(["shop.*"]),
                ),
                log,
                self.store,
            ).manifests
        if moves:
            new = Checkpoint.covering(manifest, saved_at="", saved_by="")
            advance(self.checkpoints, KEY, expected=saved, new=new)
            self.staged.append(manifest)
        return manifest


@pytest.mark.fault("failover", servers="mysql97 mariadb118", stores="file")
def test_nothing_is_lost_and_nothing_twice(pair: Pair) -> None:
    source, replica = pair.source.server, pair.replica.server
    tagged = "DO 0" if pair.mariadb else "SET gtid_next = 'AUTOMATIC:tagged'"
    other_domain = "SET gtid_domain_id = 7" if pair.mariadb else "DO 0"
    own_domain = "SET gtid_domain_id = 9" if pair.mariadb else "DO 0"
    execute(source, "CREATE DATABASE shop")
    pair.source.execute(*TABLES, "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    pair.source.execute(tagged, "INSERT INTO visits VALUES ('tagged')")
    # A replica of MariaDB may apply a domain before the others: the table has to be there.
    pair.catch_up()
    pair.source.execute(other_domain, "INSERT INTO visits VALUES ('domain')")
    capture = Capture(pair.replica)
    capture.run(source)
    pair.catch_up()

    # What the replica does by itself stands in its log before what it has not applied yet.
    pair.replicate("STOP")
    pair.source.execute("UPDATE t SET a = 'later' WHERE id = 1", "INSERT INTO visits VALUES ('x')")
    pair.source.execute(tagged, other_domain, "INSERT INTO visits VALUES ('both')")
    prepare(pair.source, "'x'", "INSERT INTO visits VALUES ('xa')")
    capture.run(source)
    assert capture.in_doubt(1) == ["X'78',X'',1"]
    with pytest.raises(ForeignPositionError, match="has not caught up"):
        capture.run(replica, failover="follow")
    pair.replica.execute(own_domain, "INSERT INTO visits VALUES ('by itself')")
    pair.replicate("START")
    pair.catch_up()
    assert not capture.state(source).has_work
    pair.source.execute("INSERT INTO visits VALUES ('not captured')", "XA COMMIT 'x'")
    pair.catch_up()
    pair.replicate("STOP")
    source.kill()
    pair.replica.execute("INSERT INTO t VALUES (4, 'd')", "INSERT INTO visits VALUES ('y')")

    with pytest.raises(ForeignPositionError, match='failover="follow"'):
        capture.run(replica)
    with pytest.raises(ConfigurationError, match="failover is one of"):
        capture.run(replica, failover="yes")
    first = capture.run(replica, failover="follow", moves=False)
    again = capture.run(replica, failover="follow")
    assert first == again
    assert again.start.logged is not None
    assert again.stop.logged is None
    assert again.identity.log_name == "other"
    assert again.start.gtid == capture.staged[1].stop.gtid
    assert not capture.state(replica).has_work

    execute(replica, "FLUSH BINARY LOGS")
    pair.replica.execute("DELETE FROM t WHERE id = 2", "INSERT INTO visits VALUES ('z')")
    capture.run(replica)
    assert list(manifests_after(capture.log, 0)) == capture.staged
    capture.assert_equal_to_select()


@pytest.mark.slow
@pytest.mark.fault("failover", servers="mysql97 mariadb118", stores="file")
def test_a_failover_while_the_log_is_read(
    pair: Pair, proxy_to: Callable[[str, int], Proxy]
) -> None:
    """The address leads to the replica once the connection was cut, at the start or later."""
    source, replica = pair.source.server, pair.replica.server
    proxy = proxy_to(source.host, source.port)
    address: Any = SimpleNamespace(dsn=f"mysql://root@{proxy.host}:{proxy.port}")
    execute(source, "CREATE DATABASE shop")
    pair.source.execute(*TABLES, "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    captures = [Capture(pair.replica) for _ in range(8)]
    for capture in captures:
        capture.run(source)
    rows = ", ".join(f"({id_}, REPEAT('x', 200))" for id_ in range(10, 2000))
    pair.source.execute(
        f"INSERT INTO t VALUES {rows}",
        "UPDATE t SET id = id + 10000 WHERE id > 1000",
        "INSERT INTO visits VALUES ('one'), ('one')",
        "DELETE FROM t WHERE id < 500",
    )
    pair.catch_up()
    captures[0].run(address, moves=False)
    whole, failed = proxy.passed, 0

    for number, capture in enumerate(captures[1:], 1):
        proxy.servers = partial(leads_to, source)
        proxy.reset()
        proxy.cut_after = whole * number // len(captures)
        try:
            # What the server sends of the log once its first events were read is sent in vain.
            capture.run(address, failover="follow")
        except SourceError as error:
            assert error.retryable, error  # noqa: PT017  Not each cut is noticed.
            failed += 1
            proxy.reset()
            proxy.servers = partial(leads_to, replica)
            assert capture.run(address, failover="follow").identity.log_name == "other"
        capture.assert_equal_to_select()
    assert failed > 2


def leads_to(server: Server, _: int) -> tuple[str, int]:
    return server.host, server.port


# ------------------------------------------------------------------- in the lake


@pytest.mark.fault("failover", servers="mysql97 mariadb118", lakes="iceberg", stores="file")
def test_the_lake_follows_a_failover(
    pair: Pair, quick_workplace: Workplace, tmp_path: Path
) -> None:
    """From one server to the other and back; by the note of how far the lake is, and without."""
    template = f"{quick_workplace.database}.{{table}}"
    quick_workplace.source = "shop"
    capture = Capture(pair.source, quick_workplace.store)

    def check_lake() -> None:
        rules = TableRules({"*": TableOptions(target=template)})
        quick_workplace.merge(table_options=rules)
        for name, columns in {"t": "id, a", "idle": "id", "visits": "page"}.items():
            table = quick_workplace.spark.table(f"lake.{template.format(table=name)}")
            found = table.selectExpr(*columns.split(", ")).collect()
            expected = pair.source.query(f"SELECT {columns} FROM {name}")
            assert sorted(map(tuple, found)) == sorted(expected)

    execute(pair.source.server, "CREATE DATABASE shop")
    pair.source.execute(*TABLES, "CREATE TABLE idle (id INT PRIMARY KEY)")
    pair.source.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')", "INSERT INTO visits VALUES (1)")
    pair.source.execute("INSERT INTO idle VALUES (1)")
    capture.run(pair.source.server)
    check_lake()

    pair.catch_up()
    pair.turn_round()
    pair.source.execute("UPDATE t SET a = 'x' WHERE id = 1", "INSERT INTO visits VALUES (2)")
    capture.run(pair.source.server, failover="follow")
    check_lake()

    pair.catch_up()
    pair.turn_round()
    pair.replicate("STOP")
    pair.source.execute("INSERT INTO t VALUES (4, 'd')", "INSERT INTO idle VALUES (2)")
    capture.run(pair.source.server, failover="follow")
    rmtree(tmp_path / "staging/shop/_merged")
    check_lake()
    assert len({manifest.identity for manifest in capture.staged}) == 2


def a_table(workplace: Workplace, name: str = "t") -> tuple[Source, Table]:
    source = workplace.new_source()
    return source, source.create(workplace.database, name, {"id": INT}, ("id",))


def stage_from(source: Source, server: str) -> None:
    """Stage what happened since the last manifest, as from a server's log."""
    manifest = source.make_manifest()
    start, stop = (
        replace(each, gtid=f"u:1-{each.offset}") for each in (manifest.start, manifest.stop)
    )
    identity = replace(IDENTITY, server=server)
    source.log.commit(replace(manifest, identity=identity, start=start, stop=stop))


def recorded(workplace: Workplace, table: Table) -> str:
    """Return the server that a lake table follows, as it says itself."""
    return str(json.loads(workplace.state(table).properties[IDENTITY_PROPERTY])["server"])


def test_a_table_without_changes_during_failovers(quick_workplace: Workplace) -> None:
    workplace = quick_workplace
    source, idle = a_table(workplace, "idle")
    busy = source.create(workplace.database, "busy", {"id": INT}, ("id",))
    idle.insert(id=1)
    for number, server in enumerate(["A", "B", "C"]):
        busy.insert(id=number)
        stage_from(source, server)
        workplace.merge()
    # Once it is merged, only the note knows whose it was.
    workplace.store.write(source.log.key(1), b"expired")
    assert (recorded(workplace, idle), recorded(workplace, busy)) == ("A", "C")
    idle.insert(id=2)
    stage_from(source, "C")

    workplace.merge()

    workplace.check(idle, busy)
    assert recorded(workplace, idle) == "C"


@pytest.mark.fault("failover", lakes="iceberg", stores="file")
@pytest.mark.parametrize("step", ["after", "before"])
def test_a_merge_that_is_killed_during_a_failover(
    step: str, quick_workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the table's commit, or between its properties and the commit."""
    source, table = a_table(quick_workplace)
    table.insert(id=1)
    stage_from(source, "A")
    quick_workplace.merge()
    table.insert(id=2)
    stage_from(source, "B")
    lake = type(quick_workplace.lake)
    merge = lake.merge

    def die(*arguments: Any) -> None:
        if step == "after":
            merge(*arguments)
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(lake, "merge", die)
        assert quick_workplace.try_merge().failed
    table.insert(id=3)
    stage_from(source, "C")
    table.insert(id=4)
    stage_from(source, "A")

    quick_workplace.merge()

    quick_workplace.check(table)


def test_a_server_without_a_failover_may_not_write_the_table(
    quick_workplace: Workplace, tmp_path: Path
) -> None:
    source, table = a_table(quick_workplace)
    for server in ("A", "B"):
        table.insert(id=ord(server))
        stage_from(source, server)
    quick_workplace.merge()
    elsewhere = replace(
        quick_workplace,
        root=f"file://{tmp_path}/b",
        store=open_store(f"file://{tmp_path}/b/staging"),
    )
    source, same = a_table(elsewhere)
    for server in ("X", "Y", "Y"):
        same.insert(id=source.sequence)
        stage_from(source, server)

        failed = elsewhere.failure()

        assert "does not follow this table of this source" in str(failed.error)
        assert "binlog.identity" in str(failed.error)
    quick_workplace.check(table)


# ------------------------------------------------------------------- GTID sets


@pytest.mark.parametrize("name", ["mysql97", "mariadb1011"])
def test_what_a_gtid_set_means(name: str, run_folder: Path) -> None:
    server = Server.create(name, run_folder / f"gtids-{name}")
    server.start()
    try:
        check_what_a_gtid_set_means(Database(server, "shop"), mariadb=name.startswith("mariadb"))
    finally:
        server.stop()


def check_what_a_gtid_set_means(database: Database, *, mariadb: bool) -> None:
    server = database.server
    execute(server, "CREATE DATABASE shop")
    database.execute(*TABLES)
    settings = "SET gtid_domain_id = 7" if mariadb else "SET gtid_next = 'AUTOMATIC:tag'"
    for number in range(1, 5):
        database.execute(f"INSERT INTO t VALUES ({number}, 'x')")
        database.execute(settings, f"INSERT INTO visits VALUES ('{number}')")
    execute(server, "FLUSH BINARY LOGS")
    database.execute("INSERT INTO t VALUES (9, 'x')")
    variable = "server_id" if mariadb else "server_uuid"
    ((own,),) = query(server, f"SELECT @@GLOBAL.{variable}")

    def gtids(first: int, second: int) -> str:
        """Return everything up to these rows of the tables."""
        if mariadb:
            return f"0-{own}-{3 + first},7-{own}-{second}"
        return f"{own}:1-{3 + first}:tag:1-{second}"

    def stage(start: str, stop: str | None = None) -> list[str]:
        log = ServerLog(settings_of(server))
        state = log.read_state(None, start=start)
        at = log.resolve(start)
        ranges = Ranges(database)
        with closing(log):
            ranges.stage(log, log.resolve(stop) if stop else state.log_end, at)
        joined = ranges.joined()
        return [
            str(next(iter(row.values())))
            for table in joined.manifest.tables
            for row in joined.rows(table)
        ]

    # Of `t`, then of `visits`.
    assert stage(gtids(4, 4)) == ["9"]
    assert stage(gtids(4, 2)) == ["9", *"34"]
    # Transactions of the set are logged after the first one that is not in it.
    assert stage(gtids(1, 3)) == [*"2349", "4"]
    assert stage(gtids(1, 1), gtids(3, 3)) == [*"23", *"23"]

    log = ServerLog(settings_of(server))
    unknown = f"0-{own}-99" if mariadb else f"{own}:tag:1-99"
    with pytest.raises(ForeignPositionError, match="lacks transactions of the GTID set"):
        log.find_gtids(unknown)
    with pytest.raises(ConfigurationError, match="not a GTID set"):
        log.find_gtids("0-1-x" if mariadb else "nobody:1-2")
    newest = flush_log(server)
    purge(server, newest)
    # Of every domain, or server and tag: also of one that the set does not name.
    for lacking in (gtids(4, 4), gtids(5, 3), f"0-{own}-8" if mariadb else f"{own}:1-8"):
        with pytest.raises(PositionPurgedError, match="has purged transactions"):
            log.find_gtids(lacking)
    assert log.find_gtids(gtids(5, 4)).file == newest
