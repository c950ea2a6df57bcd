"""Whether a task retries: the one place that reads `retryable`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_binlog.errors import BinlogError, ConfigurationError, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def fail_unless_retryable() -> Iterator[None]:
    """Turn an error that is not retryable into Airflow's "fail, do not retry"."""
    try:
        yield
    except BinlogError as error:
        if error.retryable:
            raise
        failure = AirflowFailException(f"{type(error).__name__}: {error}")
        # The text of these says what to change; a traceback would bury it.
        is_plain = isinstance(error, ConfigurationError | SourceError)
        raise failure from (None if is_plain else error)
