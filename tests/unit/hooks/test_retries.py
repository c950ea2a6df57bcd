"""A task retries what may pass, and fails at once where it cannot."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_binlog.errors import ConnectionLostError, PositionPurgedError
from airflow_provider_binlog.hooks.retries import fail_unless_retryable


def test_a_retryable_error_is_raised_unchanged() -> None:
    with pytest.raises(ConnectionLostError), fail_unless_retryable():
        raise ConnectionLostError("lost")


def test_another_error_fails_the_task_without_a_retry() -> None:
    with (
        pytest.raises(
            AirflowFailException, match=r"PositionPurgedError: purged \(file=b.1\)"
        ) as caught,
        fail_unless_retryable(),
    ):
        raise PositionPurgedError("purged", file="b.1")

    assert isinstance(caught.value.__cause__, PositionPurgedError)


def test_other_errors_pass() -> None:
    with pytest.raises(KeyError), fail_unless_retryable():
        raise KeyError
