"""Hook, sensor and trigger on real servers; connections and Variables come by the environment."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow._shared.module_loading import import_string
from airflow.sdk import DAG, Variable
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred
from airflow.sdk.observability import stats
from airflow.triggers.base import BaseTrigger

from airflow_provider_binlog.checkpoint import Checkpoint
from airflow_provider_binlog.errors import ConnectionLostError
from airflow_provider_binlog.hooks.binlog import BinlogHook
from airflow_provider_binlog.position import Position, SourceIdentity
from airflow_provider_binlog.sensors import binlog
from airflow_provider_binlog.sensors.binlog import BinlogPositionSensor
from airflow_provider_binlog.sources.binlog_source import BinlogSource
from airflow_provider_binlog.sources.lag import Thresholds
from airflow_provider_binlog.sources.server_log import ServerLog
from airflow_provider_binlog.sources.settings import ConnectionSettings
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.transport.server import queries
from airflow_provider_binlog.triggers.binlog import (
    BinlogPositionTrigger,
    BinlogWatcherTrigger,
    LogEnd,
    find_growth,
)
from tests.services.servers import Server
from tests.support.stores import open_store
from tests.unit.staging.manifests import IDENTITY, manifest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from tests.fixtures.mysql import Database

CONNECTION = "AIRFLOW_CONN_BINLOG_DEFAULT"
CHECKPOINT = "AIRFLOW_VAR_BINLOG_CHECKPOINT_SHOP"
SHOP = BinlogSource("shop", start="now")
SAVED = Checkpoint(IDENTITY, Position("binlog.000001", 4), 1, "2026-11-21", "a test").encode()


@pytest.fixture(autouse=True)
def no_variable_in_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no database of Airflow's, and no task that could ask for one."""
    monkeypatch.setattr(Variable, "keys", lambda **_: [])


@pytest.fixture
def database(database: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    """The database, whose server is `binlog_default`."""
    server = database.server
    fields = {"conn_type": "binlog", "host": server.host, "port": server.port, "login": "root"}
    monkeypatch.setenv(CONNECTION, json.dumps(fields))
    return database


def log_end() -> Position:
    with closing(BinlogHook().get_conn()) as connection:
        return queries.log_end(connection)


def identity() -> SourceIdentity:
    with closing(BinlogHook().get_conn()) as connection:
        return queries.identify(connection)


def checkpoint_at(position: Position, **changed: str) -> str:
    issued_by = SourceIdentity.from_json({**identity().to_json(), **changed})
    return Checkpoint(issued_by, position, 1, "2026-11-21", "a test").encode()


def sensor(**arguments: Any) -> BinlogPositionSensor:
    return BinlogPositionSensor(task_id="changes", source=SHOP, **arguments)


def test_the_connection_is_tested(database: Database) -> None:
    ready, text = BinlogHook().test_connection()

    assert ready, text
    assert str(log_end()) in text
    assert database.server.name[:5] in text


@pytest.mark.parametrize(
    "fields", [{"password": "wrong"}, {"port": 1}, {"extra": {"ssl_mode": "no"}}]
)
def test_a_connection_that_does_not_work_says_why(
    fields: dict[str, Any], mysql97: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = {"conn_type": "binlog", "host": mysql97.host, "port": mysql97.port, "login": "root"}
    monkeypatch.setenv(CONNECTION, json.dumps(good | fields))

    ready, text = BinlogHook().test_connection()

    assert not ready
    assert text


@pytest.mark.parametrize("ssl_mode", ["disabled", "preferred", "required"])
def test_tls_is_as_the_mode_says(ssl_mode: str, mysql97: Server) -> None:
    settings = ConnectionSettings.from_dsn(f"{mysql97.dsn}/?ssl_mode={ssl_mode}")

    with closing(settings.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
        (_, cipher) = cursor.fetchone() or ("", "")

    assert bool(cipher) == (ssl_mode != "disabled")


def test_a_start_is_resolved(database: Database) -> None:
    log = ServerLog(BinlogHook().settings)

    assert log.resolve("now") == log_end()
    assert log.resolve("earliest") == Position("binlog.000001", 4)


def test_the_first_run_has_work_at_once(database: Database) -> None:
    seen: Any = sensor().poke({})

    assert seen.is_done
    start = seen.xcom_value.pop("start")
    assert Position.from_json(start) == log_end()
    assert start["file_created"] > 0
    with closing(BinlogHook().get_conn()) as connection:
        identity = queries.identify(connection)
    assert seen.xcom_value == {
        "source": "shop",
        "log_end": log_end().to_json(),
        "first": True,
        "identity": identity.to_json(),
    }


def test_it_waits_until_the_log_has_grown(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = log_end()
    monkeypatch.setenv(CHECKPOINT, checkpoint_at(at))

    assert not sensor().poke({}).is_done
    with pytest.raises(AirflowSkipException):
        sensor(when_nothing_new="skip").poke({})
    with monkeypatch.context() as patched, DAG("shop", schedule=None, max_active_runs=1):
        patched.setattr(binlog, "has_queued_run", {"shop": True}.__getitem__)
        with pytest.raises(AirflowSkipException, match="another run is queued"):
            sensor().poke({})

    database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    seen: Any = sensor(when_nothing_new="skip").poke({})

    assert seen.is_done
    assert Position.from_json(seen.xcom_value["start"]) == at
    assert seen.xcom_value["log_end"]["offset"] > at.offset


def test_where_a_merge_holds_the_checkpoint_back_it_waits_for_what_is_not_staged(
    database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(CHECKPOINT, checkpoint_at(log_end()))
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    path = f"file://{tmp_path}"
    store = open_store(path)
    staged = replace(manifest(2), identity=identity(), stop=log_end())
    store.write(ManifestLog(store, "shop").key(2), staged.encode())

    assert sensor().poke({}).is_done
    assert not sensor(staging_path=path).poke({}).is_done
    database.execute("INSERT INTO t VALUES (1)")
    assert sensor(staging_path=path).poke({}).is_done


def test_another_servers_checkpoint_fails_for_good(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CHECKPOINT, checkpoint_at(log_end(), server="another"))

    with pytest.raises(AirflowFailException, match="ForeignPositionError"):
        sensor().poke({})


def test_an_unreachable_server_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(CONNECTION, "binlog://root@127.0.0.1:1")

    with pytest.raises(ConnectionLostError):
        sensor().poke({})


def test_it_defers_and_queries_again_when_resumed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = log_end()
    monkeypatch.setenv(CHECKPOINT, checkpoint_at(at))
    waiting = sensor(deferrable=True, poke_interval=0.05)

    with pytest.raises(TaskDeferred) as deferred:
        waiting.execute({})
    trigger = deferred.value.trigger
    assert isinstance(trigger, BinlogPositionTrigger)
    assert read_since(trigger) == (at, identity())
    with pytest.raises(TaskDeferred):  # nothing has come after all
        waiting.execute_complete({}, {"log_end": str(at)})

    database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    payload = asyncio.run(first_event(trigger))

    assert payload == {"log_end": str(log_end()), "reason": "the log has grown"}
    assert Position.from_json(waiting.execute_complete({}, payload)["start"]) == at


def read_since(trigger: Any) -> tuple[Position, SourceIdentity]:
    since = trigger.since
    return Position.from_json(since["position"]), SourceIdentity.from_json(since["identity"])


def a_trigger(since: Position | None, **thresholds: Any) -> BinlogPositionTrigger:
    where = None
    if since is not None:
        where = {"position": since.to_json(), "identity": identity().to_json()}
    return BinlogPositionTrigger(
        binlog_conn_id="binlog_default",
        source="shop",
        since=where,
        poll_interval=0.01,
        **thresholds,
    )


async def first_event(trigger: BaseTrigger) -> Any:
    async with asyncio.timeout(30):
        return (await anext(trigger.run())).payload


def test_the_trigger_stays_while_nothing_comes(database: Database) -> None:
    trigger = a_trigger(log_end())

    async def wait() -> None:
        async with asyncio.timeout(0.5):
            await first_event(trigger)

    with pytest.raises(TimeoutError):
        asyncio.run(wait())


def test_the_trigger_outlasts_a_server_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONNECTION, "binlog://root@127.0.0.1:1")
    trigger = a_trigger(None)
    monkeypatch.setenv(CHECKPOINT, SAVED)

    async def wait() -> None:
        async with asyncio.timeout(0.5):
            await first_event(trigger)

    with pytest.raises(TimeoutError):
        asyncio.run(wait())


def test_the_trigger_wakes_the_sensor_for_an_error_that_stays(
    mysql97: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CONNECTION, f"binlog://root:wrong@{mysql97.host}:{mysql97.port}")
    monkeypatch.setenv(CHECKPOINT, SAVED)
    trigger = a_trigger(None)

    payload = asyncio.run(first_event(trigger))

    assert "AccessDeniedError" in payload["error"]


# ------------------------------------------------------------------- how much is worth a run


def wait_for_more(database: Database, monkeypatch: pytest.MonkeyPatch) -> Position:
    """Save a checkpoint with GTIDs at the end of the log, and log one old and one new change."""
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    with closing(BinlogHook().get_conn()) as connection:
        at = replace(queries.log_end(connection), gtid=queries.gtid_executed(connection))
    monkeypatch.setenv(CHECKPOINT, checkpoint_at(at))
    database.execute(
        "SET timestamp = UNIX_TIMESTAMP() - 120",
        "INSERT INTO t VALUES (1)",
        "SET timestamp = DEFAULT",
        "INSERT INTO t VALUES (2)",
    )
    return at


THRESHOLDS = [
    ({"min_bytes": "1 MiB"}, False),
    ({"min_bytes": 300}, True),
    ({"min_transactions": 3}, False),
    ({"min_transactions": 2}, True),
    ({"max_lag": 3600}, False),
    ({"max_lag": 100}, True),
    ({"min_bytes": "1 MiB", "min_transactions": 3, "max_lag": 100.5}, True),
    ({"min_bytes": "1 MiB", "min_transactions": 3, "max_lag": 3600}, False),
]


@pytest.mark.parametrize(("thresholds", "due"), THRESHOLDS)
def test_little_is_left_for_a_later_run(
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    thresholds: dict[str, Any],
    *,
    due: bool,
) -> None:
    at = wait_for_more(database, monkeypatch)

    assert sensor(**thresholds).poke({}).is_done == due

    if due:
        started = sensor(deferrable=True, **thresholds).execute({})
        assert Position.from_json(started["start"]) == at
        return
    with pytest.raises(AirflowSkipException, match="below the thresholds"):
        sensor(when_nothing_new="skip", **thresholds).poke({})
    with pytest.raises(TaskDeferred) as deferred:
        sensor(deferrable=True, **thresholds).execute({})
    # The trigger sees it so, too.
    trigger: Any = deferred.value.trigger
    given = Thresholds(trigger.min_bytes, trigger.min_transactions, trigger.max_lag)
    assert read_since(trigger) == (at, identity())
    gauges: dict[str, float] = {}
    monkeypatch.setattr(stats, "gauge", lambda name, value, tags: gauges.update({name: value}))
    asked = "shop", BinlogHook().settings, at, identity()
    assert find_growth(*asked, given) == {}
    # Metrics follow what waits, also while no worker does.
    assert gauges["binlog.lag_bytes"] > 0
    assert gauges["binlog.lag_seconds"] >= 100
    grown = find_growth(*asked, Thresholds(min_bytes=1))
    assert grown["log_end"] == str(log_end())


def test_the_lag_that_a_sensor_sends_falls_to_zero(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    gauges: dict[str, float] = {}
    monkeypatch.setattr(stats, "gauge", lambda name, value, tags: gauges.update({name: value}))
    wait_for_more(database, monkeypatch)

    assert sensor().poke({}).is_done
    assert gauges["binlog.lag_bytes"] > 0
    monkeypatch.setenv(CHECKPOINT, checkpoint_at(log_end()))
    assert not sensor().poke({}).is_done
    assert gauges["binlog.lag_bytes"] == gauges["binlog.lag_seconds"] == 0


def test_transactions_are_counted_by_gtids(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CHECKPOINT, checkpoint_at(replace(log_end(), gtid=None)))
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)")

    with pytest.raises(AirflowFailException, match=r"counts GTIDs.*min_bytes"):
        sensor(min_transactions=1).poke({})


def test_a_task_may_start_in_the_triggerer(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = sensor(start_from_trigger=True, min_bytes="1 KiB", poke_interval=0.01)
    started = waiting.start_trigger_args

    def start() -> Any:
        kwargs = json.loads(json.dumps(started.trigger_kwargs))
        return asyncio.run(first_event(import_string(started.trigger_cls)(**kwargs)))

    assert start() == {"reason": "there is no checkpoint yet"}
    assert (waiting.start_from_trigger, started.next_method) == (True, "execute_complete")
    # The class, and every other sensor, start on a worker.
    assert not sensor().start_from_trigger
    assert sensor().start_trigger_args.trigger_kwargs is None

    monkeypatch.setenv(CHECKPOINT, checkpoint_at(log_end()))
    database.execute("CREATE TABLE t (note TEXT)", f"INSERT INTO t VALUES ('{'x' * 2000}')")

    assert start()["log_end"] == str(log_end())


def test_watchers_of_one_server_share_a_query(database: Database) -> None:
    database.execute("CREATE TABLE t (note TEXT)")
    every = BinlogWatcherTrigger(binlog_conn_id="binlog_default", poll_interval=0.01)
    large = BinlogWatcherTrigger(
        binlog_conn_id="binlog_default", min_bytes=10_000, poll_interval=0.01
    )
    queries_made: list[LogEnd] = []

    async def shared() -> AsyncIterator[LogEnd]:
        """Query, then write: a little twice, and much."""
        stream = every.open_shared_stream(every.serialize()[1])
        for size in (0, 10, 20, 0, 20_000):
            if size:
                await asyncio.to_thread(
                    database.execute, f"INSERT INTO t VALUES (REPEAT('x', {size}))"
                )
            queries_made.append(await anext(stream))
            yield queries_made[-1]

    async def events(trigger: BinlogWatcherTrigger, ends: Sequence[LogEnd]) -> list[Any]:
        async def replay() -> AsyncIterator[LogEnd]:
            for end in ends:
                yield end

        return [event.payload async for event in trigger.filter_shared_stream(replay())]

    async def watch() -> tuple[list[Any], list[Any]]:
        ends = [end async for end in shared()]
        return await events(every, ends), await events(large, ends)

    seen, seen_large = asyncio.run(watch())

    assert every.shared_stream_key() == large.shared_stream_key()
    assert [event["log_end"] for event in seen] == [
        str(queries_made[number].end) for number in (0, 1, 2, 4)
    ]
    assert [event["log_end"] for event in seen_large] == [
        str(queries_made[number].end) for number in (0, 4)
    ]


def test_a_watcher_says_what_fails_and_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONNECTION, "binlog://root@127.0.0.1:1")
    trigger = BinlogWatcherTrigger(binlog_conn_id="binlog_default", poll_interval=0.01)

    async def watch() -> list[Any]:
        """Return the events until the server has been away for several queries."""
        stream = trigger.open_shared_stream(trigger.serialize()[1])

        async def some() -> AsyncIterator[LogEnd]:
            for _ in range(3):
                yield await anext(stream)

        return [event.payload async for event in trigger.filter_shared_stream(some())]

    ((error,),) = [event.values() for event in asyncio.run(watch())]
    assert "ConnectionLostError" in error
