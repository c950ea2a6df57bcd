"""A task retries what may pass, and fails at once where it cannot."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_binlog.errors import ConnectionLostError, FormatError, PositionPurgedError
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

    assert caught.value.__suppress_context__


def test_the_cause_of_an_error_that_its_text_does_not_explain_is_kept() -> None:
    with pytest.raises(AirflowFailException) as caught, fail_unless_retryable():
        raise FormatError("damaged")

    assert isinstance(caught.value.__cause__, FormatError)


def test_other_errors_pass() -> None:
    with pytest.raises(KeyError), fail_unless_retryable():
        raise KeyError
