"""BinlogFollowOperator counts every range that it stages."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from airflow.sdk.observability import stats

from airflow_provider_binlog import BinlogFollowOperator, BinlogSource
from airflow_provider_binlog.capture.extract import Extracted
from airflow_provider_binlog.errors import ConfigurationError, ConnectionLostError
from airflow_provider_binlog.hooks.metrics import try_to_send_lag
from airflow_provider_binlog.hooks.tasks import seconds_to_follow
from airflow_provider_binlog.sources.lag import Lag
from tests.contract.checkpoint import checkpoint
from tests.unit.operators.test_merge import States
from tests.unit.staging.manifests import manifest

if TYPE_CHECKING:
    from collections.abc import Iterator

SHOP = BinlogSource("shop", start="now")


def extracted(sequence: int) -> Extracted:
    """Return a range of one manifest."""
    made = manifest(sequence)
    orders, *others = made.tables
    replaced = {**orders.unrepresentable, f"c{sequence}": 1}
    made = replace(made, tables=(replace(orders, unrepresentable=replaced), *others))
    return Extracted((made,), made.start, made.stop)


def an_operator(source: BinlogSource = SHOP) -> BinlogFollowOperator:
    return BinlogFollowOperator(
        task_id="stage",
        source=source,
        staging_path="/s",
        tables=["*.*"],
        follow=timedelta(minutes=1),
    )


@pytest.mark.parametrize("follow", [3300, timedelta()])
def test_a_time_to_follow_is_a_positive_timedelta(follow: Any) -> None:
    with pytest.raises(ConfigurationError, match="follow is a positive timedelta"):
        seconds_to_follow({}, follow)


def test_every_range_is_counted_and_each_column_named_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sent: Counter[str] = Counter()
    monkeypatch.setattr(stats, "incr", lambda name, count, tags: sent.update({name: count}))
    monkeypatch.setattr(stats, "gauge", lambda name, value, tags: None)
    operator = an_operator()
    given: dict[str, Any] = {
        "read_settings": (SHOP, None),
        "opened": nullcontext(None),
        "find_range": (checkpoint(0), SimpleNamespace(start="binlog.000001:4")),
        "note_lineage": None,
        "_advance": checkpoint(1),
    }
    for name, value in given.items():
        monkeypatch.setattr(operator, name, lambda *_, value=value, **__: value)
    module = "airflow_provider_binlog.operators.follow"
    monkeypatch.setattr(f"{module}.open_store", lambda _: None)
    monkeypatch.setattr(f"{module}.warn_of_foreign_keys", lambda *_: None)
    capture = "airflow_provider_binlog.capture.follow"
    monkeypatch.setattr(f"{capture}.request_next", lambda *_: None)
    after: list[Any] = []

    def follow(*_: object, **given: Any) -> Iterator[Extracted]:
        after.append(given["after"])
        return iter([extracted(2), extracted(3)])

    monkeypatch.setattr(f"{capture}.follow", follow)
    monkeypatch.setattr("airflow_provider_binlog.sources.next_range.stage", lambda *_: extracted(1))

    staged = operator._follow("a run", until=0)

    assert after == [extracted(1).stop]
    assert staged is not None
    assert staged["rows"] == sent["binlog.rows"] == 9
    assert sent["binlog.bytes"] == 3 * 1234
    # Each range has two values that were replaced, of a column of its own and of a common one.
    log = capsys.readouterr().out
    assert log.count("shop.orders.state 1") == 1
    assert [log.count(f"shop.orders.c{number} 1") for number in (1, 2, 3)] == [1, 1, 1]


def test_a_retry_follows_for_the_rest_since_the_first_try(monkeypatch: pytest.MonkeyPatch) -> None:
    noon, states = datetime(2026, 11, 29, 12, tzinfo=UTC), States()

    def minutes_left(at: int, run: int) -> float:
        """Return how long a try follows that starts so many minutes after noon; so does its run."""
        now = noon + timedelta(minutes=at)
        monkeypatch.setattr("airflow_provider_binlog.hooks.tasks.timezone.utcnow", lambda: now)
        run_of = SimpleNamespace(start_date=noon + timedelta(minutes=run))
        context: Any = {"dag_run": run_of, "task_state_store": states}
        return seconds_to_follow(context, timedelta(minutes=55)) / 60

    # Snapshots took the first hour of the run.
    assert [minutes_left(at, run=0) for at in (60, 62, 130)] == [55, 53, 0]
    # Cleared after its end, the run starts again.
    assert [minutes_left(at, run=200) for at in (201, 203)] == [55, 53]


def test_files_which_do_not_grow_are_refused() -> None:
    operator = an_operator(replace(SHOP, files="/backup/"))

    with pytest.raises(ConfigurationError, match="follows a server, not files"):
        operator._follow("a run", until=0)


def a_lag() -> Lag:
    position = checkpoint(1).position
    known: dict[str, Any] = {
        "read_at": datetime(2026, 11, 29, 12, tzinfo=UTC),
        "position": position,
        "log_end": position,
        "executed": "",
        "bytes": 700,
        "transactions": None,
        "waits_since": datetime(2026, 11, 29, 11, 59, tzinfo=UTC),
        "oldest": position,
        "bytes_before": 9,
        "file_closed": None,
        "expires_after": timedelta(days=7),
    }
    return Lag(**known)


@pytest.mark.parametrize("known", [True, False])
def test_the_lag_is_sent_where_it_is_known_and_stops_nothing_where_not(
    known: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sent: dict[str, float] = {}
    monkeypatch.setattr(stats, "gauge", lambda name, value, tags: sent.update({name: value}))
    lost = None if known else ConnectionLostError("too many connections")
    read = Mock(return_value=a_lag(), side_effect=lost)

    try_to_send_lag("shop", read, an_operator().log)

    assert ("too many connections" in capsys.readouterr().out) is not known
    assert sent == (
        {
            "binlog.lag_bytes": 700,
            "binlog.lag_seconds": 60,
            "binlog.head_room_bytes": 9,
            "binlog.head_room_seconds": 7 * 86_400,
        }
        if known
        else {}
    )
