"""How tasks on executors ended, in a form that passes from process to process."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field

from airflow_provider_binlog import errors
from airflow_provider_binlog.errors import BinlogError, ConfigurationError, SparkJobError
from airflow_provider_binlog.stored_json import decode, encode, fields_of, from_json

_TEXT_SIZE_MAX = 1000


@dataclass(frozen=True)
class Failure:
    """An error of ours.

    Attributes:
        error: Name of its class, which decides whether the Airflow task is tried again.
        message: Its text, without the context.
        context: By name.
        trace: The Python stack of an error that nobody foresaw.
    """

    error: str
    message: str
    context: dict[str, str]
    trace: str = ""

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """Return what an exception means to the Airflow task."""
        trace = ""
        if isinstance(error, BinlogError):
            known = error
        elif isinstance(error, ImportError):
            known = ConfigurationError(
                "the Python of Spark's executors lacks a package: install there what "
                "airflow-provider-binlog needs, Airflow itself excepted",
                cause=error,
            )
        else:
            trace = "".join(traceback.format_exception(error))
            known = SparkJobError(
                "what reads on Spark failed for a reason that is not known here",
                cause=f"{type(error).__name__}: {error}"[:_TEXT_SIZE_MAX],
            )
        context = {name: str(value) for name, value in known.context.items()}
        return cls(type(known).__name__, str(known.args[0]), context, trace)

    def to_error(self) -> BinlogError:
        """Return the error, to be raised."""
        kind = getattr(errors, self.error)
        found: BinlogError = kind(self.message, **self.context)
        return found


@dataclass(frozen=True)
class Outcome:
    """How one task ended.

    Attributes:
        number: Of its chunk or sub-range.
        rows: How many rows are staged.
        changes: Of a sub-range: how many of each kind.
        failure: Why nothing is; None if it is done.
    """

    number: int
    rows: int = 0
    changes: dict[str, int] = field(default_factory=dict)
    failure: Failure | None = None


@dataclass(frozen=True)
class Report:
    """How an application ended.

    Attributes:
        outcomes: Of the tasks that ended, in the order in which they did.
        failure: Of Spark itself.
    """

    outcomes: tuple[Outcome, ...]
    failure: Failure | None = None

    def encode(self) -> bytes:
        """Return the report as it is written to a file."""
        return encode(fields_of(self))

    @classmethod
    def decode(cls, data: bytes) -> Report:
        """Read what `encode` wrote."""
        return from_json(cls, decode(data))

    def find_error(self) -> BinlogError | None:
        """Return what the Airflow task fails with: what no retry can mend first of all."""
        outcomes = [each.failure for each in self.outcomes if each.failure is not None]
        failures = [*outcomes, *([self.failure] if self.failure else [])]
        found = sorted((each.to_error() for each in failures), key=lambda each: each.retryable)
        return found[0] if found else None
