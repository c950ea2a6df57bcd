"""A checkpoint that Airflow does not return is not taken for none."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import (
    ErrorResponse,
    GetVariable,
    VariableKeysResult,
    VariableResult,
)

from airflow_provider_binlog.hooks.tasks import AirflowVariableStore

KEY = "binlog_checkpoint_shop"
AWAY = ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail={"status_code": 500})
NONE = ErrorResponse(error=ErrorType.VARIABLE_NOT_FOUND, detail={"key": KEY})


class Supervisor:
    """Answers a task's requests, in order."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def send(self, request: Any) -> Any:
        if isinstance(request, GetVariable) or type(request).__name__ == "GetVariableKeys":
            return self.answers.pop(0)
        return None


def answer(monkeypatch: pytest.MonkeyPatch, *answers: Any) -> None:
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", Supervisor(*answers), raising=False)


def test_what_is_saved_is_returned_and_what_is_not_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer(monkeypatch, VariableResult(key=KEY, value="{}"))
    assert AirflowVariableStore().get(KEY) == "{}"
    answer(monkeypatch, NONE, VariableKeysResult(keys=[f"{KEY}_2"], total_entries=1))
    assert AirflowVariableStore().get(KEY) is None


def test_an_api_server_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, AWAY, AWAY)
    with pytest.raises(AirflowRuntimeError):
        AirflowVariableStore().get(KEY)
    there = VariableKeysResult(keys=[KEY], total_entries=1)
    answer(monkeypatch, AWAY, there, AWAY)
    with pytest.raises(AirflowRuntimeError):
        AirflowVariableStore().get(KEY)
    answer(monkeypatch, AWAY, there, VariableResult(key=KEY, value="{}"))
    assert AirflowVariableStore().get(KEY) == "{}"
