"""The list of sources, by what Airflow answers: a hundred of them, and what cannot be seen."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from airflow_provider_binlog.checkpoint import Checkpoint
from airflow_provider_binlog.plugins.airflow_api import AirflowApi, AirflowRefusedError
from airflow_provider_binlog.plugins.pages import Pages
from airflow_provider_binlog.position import Position
from tests.support.stores import open_store
from tests.unit.spark.history import IDENTITY, Source
from tests.unit.status.staged import create

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


def test_no_source_is_a_state_of_its_own() -> None:
    answers: Answers = {_ALL: {"task_instances": []}, _VARIABLES: {"variables": []}}

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
