"""Errors: one tree; context survives pickling; `retryable` is theirs."""

from __future__ import annotations

import inspect
import pickle

import pytest

from airflow_provider_binlog import errors
from airflow_provider_binlog.errors import BinlogError

TREE = [
    each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, BinlogError)
]
RETRYABLE = {
    "ConnectionLostError",
    "ConnectionNotFoundError",
    "IdentityClashError",
    "MemoryExhaustedError",
    "ServerChangedError",
    "SparkJobError",
    "StoreUnavailableError",
    "TableAlteredError",
    "TableLockedError",
    "TargetConflictError",
    "UnknownMergeError",
}


@pytest.mark.parametrize("kind", TREE)
def test_pickles_with_its_context(kind: type[BinlogError]) -> None:
    error = kind("it broke", file="binlog.000001", offset=4)
    copy = pickle.loads(pickle.dumps(error))

    assert type(copy) is kind
    assert copy.args == ("it broke",)
    assert copy.context == {"file": "binlog.000001", "offset": 4}
    assert str(copy) == "it broke (file=binlog.000001, offset=4)"
    assert copy.retryable == error.retryable


def test_text_without_context_is_the_message() -> None:
    assert str(BinlogError("it broke")) == "it broke"


@pytest.mark.parametrize("kind", TREE)
def test_retryable_is_decided_by_the_class(kind: type[BinlogError]) -> None:
    assert kind("").retryable == (kind.__name__ in RETRYABLE)


@pytest.mark.parametrize("kind", TREE)
def test_the_text_has_the_message_and_its_context(kind: type[BinlogError]) -> None:
    assert (kind.__doc__ or "").strip().endswith((".", "`")) or "\n" in (kind.__doc__ or "")
