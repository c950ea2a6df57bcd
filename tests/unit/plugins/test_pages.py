"""The list of sources, by what Airflow answers: a hundred of them, and what cannot be seen."""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from airflow_provider_binlog.checkpoint import Checkpoint
from airflow_provider_binlog.errors import StagingError
from airflow_provider_binlog.plugins import pages, staged
from airflow_provider_binlog.plugins.airflow_api import AirflowApi, AirflowRefusedError
from airflow_provider_binlog.plugins.pages import Pages
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.snapshot.plan import SnapshotFiles
from airflow_provider_binlog.snapshot_manifest import new_snapshot_id, snapshot_folder
from airflow_provider_binlog.sources.lag import Lag
from tests.support.stores import open_store
from tests.unit.spark.history import IDENTITY, Source
from tests.unit.status.staged import create
from tests.unit.status.test_source import plan as make_plan

Answers = dict[str, Any]


def answering(answers: Answers, seen: list[str] | None = None) -> Callable[..., Any]:
    """Return an application with an answer, or a status, for each path; others are not found.

    `tests/integration/test_page.py` has the real one.
    """

    async def application(scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["type"] == "http.request"
        query = parse_qs(scope["query_string"].decode())
        if seen is not None:
            seen.append(scope["path"])
        answer = answers.get(scope["path"], 404)
        if callable(answer):
            answer = answer(query)
        status, body = (answer, {"detail": "no"}) if isinstance(answer, int) else (200, answer)
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(body).encode()})

    return application


def pages_of(answers: Answers, seen: list[str] | None = None) -> Pages:
    async def may_act(_: str) -> bool:
        return True

    return Pages(AirflowApi(answering(answers, seen), "token"), "eve", may_act)


def task(dag: str, name: str, path: str, **more: Any) -> Any:
    return {
        "dag_id": dag,
        "dag_run_id": "manual__1",
        "task_id": "stage",
        "map_index": -1,
        "operator": "BinlogExtractOperator",
        "state": "success",
        "start_date": "2026-11-24T10:00:00Z",
        "end_date": "2026-11-24T10:01:00Z",
        "rendered_fields": {"source": {"name": name, "files": "/logs"}, "staging_path": path},
    } | more


def variable(name: str, saved_by: str = "shop manual__1 checkpoint") -> Any:
    checkpoint = Checkpoint(IDENTITY, Position("binlog.000001", 4), 1, "2026-11-24", saved_by)
    return {"key": f"binlog_checkpoint_{name}", "value": checkpoint.encode()}


_ALL = "/api/v2/dags/~/dagRuns/~/taskInstances"
_VARIABLES = "/api/v2/variables"


def rows_of(text: str) -> list[str]:
    return re.findall(r'<th scope="row">(?:<a [^>]*>)?([^<]*)', text)


def test_a_hundred_sources_are_a_page_and_others_are_searched(tmp_path: Path) -> None:
    names = [f"shop_{number:03}" for number in range(120)]
    for name in names:
        source = Source(open_store(f"file://{tmp_path}"), name)
        create(source, "orders")
        source.commit()
    tasks = [task(f"dag_{name}", name, f"file://{tmp_path}") for name in names]

    def answer(query: dict[str, list[str]]) -> Any:
        first = int(query["offset"][0])
        return {"task_instances": tasks[first : first + 100]}

    answers: Answers = {_ALL: answer, _VARIABLES: {"variables": []}}

    async def read_all() -> tuple[str, str]:
        pages = pages_of(answers)
        # What was not read in time is there the next time.
        for _ in range(20):
            text = await pages.sources("")
            if "has not answered" not in text:
                break
        return text, await pages.sources("SHOP_11")

    text, found = asyncio.run(read_all())

    assert rows_of(text) == names[:100]
    assert text.count('class="state staged"') == 100
    assert "120 of 120, the first 100 are shown" in text
    assert rows_of(found) == [f"shop_11{digit}" for digit in range(10)]


def list_of_sources(count: int, path: Path) -> Answers:
    """Return what Airflow answers where it has so many sources, of which nothing is staged."""
    tasks = [task(f"dag_{number}", f"shop_{number}", f"file://{path}") for number in range(count)]
    return {
        _ALL: lambda query: {"task_instances": tasks[int(query["offset"][0]) :][:100]},
        _VARIABLES: {"variables": []},
    }


def test_no_source_is_a_state_of_its_own(tmp_path: Path) -> None:
    answers = list_of_sources(0, tmp_path)

    text = asyncio.run(pages_of(answers).sources(""))

    assert "There is no source yet" in text
    assert "may not see Variables" not in text
    text = asyncio.run(pages_of({**answers, _VARIABLES: 403}).sources(""))
    assert "may not see Variables" in text


def test_a_source_that_did_not_run_lately_is_found_by_its_checkpoint(tmp_path: Path) -> None:
    answers = {
        _ALL: {"task_instances": []},
        _VARIABLES: {"variables": [variable("old"), variable("lost", "eve by hand")]},
        "/api/v2/dags/shop/dagRuns/~/taskInstances": {
            "task_instances": [task("shop", "old", f"file://{tmp_path}")]
        },
    }

    text = asyncio.run(pages_of(answers).sources(""))

    assert rows_of(text) == ["lost", "old"]
    assert "source?dag_id=shop&amp;name=old" in text
    assert "No task of it that you may see has run lately." in text


def test_the_source_of_a_dag_that_may_not_be_seen_has_only_its_name() -> None:
    answers = {
        _ALL: {"task_instances": []},
        _VARIABLES: {"variables": [variable("old")]},
        "/api/v2/dags/shop/dagRuns/~/taskInstances": 403,
    }

    text = asyncio.run(pages_of(answers).sources(""))

    assert rows_of(text) == ["old"]
    assert "source?" not in text


def test_a_store_that_cannot_be_reached_says_why_and_stops_no_other_source(tmp_path: Path) -> None:
    tasks = [
        task("shop", "broken", "nowhere://bucket/staging"),
        task("shop", "relative", "staging"),
        task("shop", "works", f"file://{tmp_path}"),
    ]
    answers = {_ALL: {"task_instances": tasks}, _VARIABLES: {"variables": []}}

    text = asyncio.run(pages_of(answers).sources(""))

    assert text.count("The staged files cannot be read") == 2
    assert "a location is a URL" in text
    assert "nothing yet" in text


@pytest.mark.parametrize("path", [_ALL, _VARIABLES])
def test_an_error_of_airflow_is_an_error(path: str) -> None:
    answers: Answers = {_ALL: {"task_instances": []}, _VARIABLES: {"variables": []}, path: 500}

    with pytest.raises(AirflowRefusedError) as raised:
        asyncio.run(pages_of(answers).sources(""))
    assert raised.value.status == 500


# ------------------------------------------------------------------- one source


def show_source(path: Path, *, conn_id: str | None = None) -> str:
    """Return the page of a source that a DAG stages into a folder, and merges."""
    fields: Any = {"source": {"name": "shop", "files": "/logs"}, "staging_path": f"file://{path}"}
    if conn_id:
        fields["source"] = {"name": "shop", "conn_id": conn_id}
    merge = {"staged": {"source": "shop", "staging_path": f"file://{path}"}}
    tasks = [
        task("dag", "shop", "", rendered_fields=fields),
        task("dag", "shop", "", operator="BinlogMergeOperator", rendered_fields=merge),
    ]
    answers: Answers = {
        "/api/v2/dags/dag": {"is_paused": False},
        "/api/v2/dags/dag/dagRuns": {"dag_runs": [{"dag_run_id": "manual__1"}]},
        "/api/v2/dags/dag/dagRuns/~/taskInstances": {"task_instances": tasks},
    }
    shown: Any = {"search": "", "state": "", "page": 1, "triggered": ""}
    return asyncio.run(pages_of(answers).source("dag", "shop", **shown))


def test_a_history_without_its_merges_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()

    def refuse(_: object) -> Any:
        raise StagingError("denied")

    assert "What merges have reported" not in show_source(tmp_path / "a")
    monkeypatch.setattr(staged, "read_merges", refuse)
    denied = show_source(tmp_path / "b")
    assert "What merges have reported cannot be read now.</strong> denied" in denied
    assert '<a href="error?name=StagingError">What to do</a>' in denied

    monkeypatch.setattr(staged, "read_merges", lambda _: released.wait(60))
    monkeypatch.setattr(pages, "_WAITED_SECONDS", 0.5)
    hanging = show_source(tmp_path / "c")
    released.set()
    assert "What merges have reported was not read yet." in hanging
    assert 'data-refresh="2"' in hanging


def test_head_room_and_the_rest_of_a_snapshot_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source(open_store(f"file://{tmp_path}"), "shop")
    create(source, "orders")
    source.commit()
    name = ("shop", "items")
    plan = replace(make_plan(source, name, 5), id=new_snapshot_id(datetime.now(UTC), name))
    files = SnapshotFiles(source.store, "shop")
    files.write_plan(replace(plan, created_by="dag manual__1 snapshot"))
    folder = files.key(snapshot_folder(plan.id))
    for number in range(3):
        source.store.write(f"{folder}/chunk-{number:06}.json", b"{}")
    begun = datetime.now(UTC).timestamp() - 7200
    os.utime(tmp_path / folder / "chunk-000000.json", (begun, begun))
    now, at = datetime.now(UTC), Position("binlog.000002", 4)
    lag = Lag(
        read_at=now,
        position=at,
        log_end=Position("binlog.000003", 700),
        executed="",
        bytes=696,
        transactions=None,
        waits_since=now - timedelta(seconds=90),
        oldest=Position("binlog.000001", 4),
        bytes_before=2048,
        file_closed=now - timedelta(hours=1),
        expires_after=timedelta(hours=3),
    )
    monkeypatch.setattr(pages, "read_server_lag", lambda *_: lag)

    text = show_source(tmp_path, conn_id="here")

    assert '<p class="figure">2 h</p>' in text
    assert "by the server's setting of 3 h; 2.0 KiB from" in text
    assert '<p class="figure">1 min 30 s</p>' in text
    assert '<progress max="5" value="3">3 of 5</progress>' in text
    # Two chunks were read in two hours after the first one, and two are left.
    assert "<td>2 h" in text
    monkeypatch.setattr(pages, "_KEPT_SERVER_SECONDS", -1)
    lag = replace(lag, expires_after=timedelta(hours=1, minutes=9))
    assert '<p class="figure bad">9 min</p>' in show_source(tmp_path, conn_id="here")
    lag = replace(lag, expires_after=timedelta(minutes=30))
    assert '<p class="figure bad">may be purged</p>' in show_source(tmp_path, conn_id="here")
    lag = replace(lag, expires_after=None)
    assert '<p class="figure">ever</p>' in show_source(tmp_path, conn_id="here")


# ------------------------------------------------------------------- the API


def test_a_call_has_the_persons_token_and_the_query() -> None:
    seen: list[Any] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope["method"], scope["path"], scope["query_string"], dict(scope["headers"])))
        seen.append(json.loads((await receive())["body"] or b"null"))
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b'{"a":', "more_body": True})
        await send({"type": "http.response.body", "body": b" 1}"})

    api = AirflowApi(application, "secret")
    assert asyncio.run(api.get("/x", a=["1", "2"], b="c d")) == {"a": 1}
    assert asyncio.run(api.patch("/y", {"key": "ü"})) == {"a": 1}

    (get, _, patch, body) = seen
    assert get[:3] == ("GET", "/x", b"a=1&a=2&b=c+d")
    assert get[3][b"authorization"] == b"Bearer secret"
    assert (patch[:3], body) == (("PATCH", "/y", b""), {"key": "ü"})


def test_an_api_that_does_not_answer_is_given_no_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "airflow_provider_binlog.plugins.airflow_api"
    monkeypatch.setattr(f"{module}._SECONDS_MAX", 0.01)

    async def application(*_: Any) -> None:
        await asyncio.Event().wait()

    with pytest.raises(AirflowRefusedError, match="does not answer"):
        asyncio.run(AirflowApi(application, "token").get("/"))


def test_an_answer_that_is_no_json_is_an_error() -> None:
    async def application(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 502})
        await send({"type": "http.response.body", "body": b"<html>"})

    with pytest.raises(AirflowRefusedError, match="answered 502"):
        asyncio.run(AirflowApi(application, "token").get("/"))
