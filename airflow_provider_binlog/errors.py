"""Every exception this package raises, in one tree below `BinlogError`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn, TypeAlias


class BinlogError(Exception):
    """Base of all errors raised here.

    Subclasses set `retryable`; the Airflow operators read it, and nothing else decides whether a
    task is retried. Pass context (position, table, column) as keyword arguments, so that errors
    pickle and their text is uniform.
    """

    retryable = False

    def __init__(self, message: str, **context: object) -> None:
        super().__init__(message)
        self.context = context

    def name_section(self) -> None:
        """Add the section of the docs on errors of this class to the context.

        It precedes the rest, which may end with a command.
        """
        section = f"docs/troubleshooting.md#{type(self).__name__.lower()}"
        self.context = {"see": section, **self.context}

    def __reduce__(self) -> tuple[object, ...]:
        """Keep `context` when the error is pickled to cross a process boundary."""
        return type(self), self.args, {"context": self.context}

    def __str__(self) -> str:
        """Return the message, then the context as ``key=value`` pairs."""
        pairs = ", ".join(f"{key}={value}" for key, value in self.context.items())
        return f"{self.args[0]} ({pairs})" if pairs else str(self.args[0])


class ConfigurationError(BinlogError):
    """An argument, an option or a field of a connection cannot be used as given."""


class ConnectionNotFoundError(ConfigurationError):
    """Airflow has no connection of this id.

    It says the same where its API server or a secrets backend does not answer: that may pass.
    """

    retryable = True


class FormatError(BinlogError):
    """The bytes break the format; retrying cannot help."""


class TruncatedError(FormatError):
    """An event, a packet or a file ends before its last field."""


class ChecksumError(FormatError):
    """An event's CRC32 differs from the one in its trailer."""


class TableMapMissingError(FormatError):
    """A rows event names a table that no TABLE_MAP of its statement described."""


class UnsupportedError(BinlogError):
    """Legal MySQL that this package does not decode; the text says what to change."""


class SourceError(BinlogError):
    """The server refused, or the way to it failed."""


class ConnectionLostError(SourceError):
    """The connection could not be opened, or ended before the range did."""

    retryable = True


class AccessDeniedError(SourceError):
    """The account lacks a privilege, or its password is wrong."""


class IdentityClashError(SourceError):
    """Another replica registered with our server id; a retry draws another id."""

    retryable = True


class PositionPurgedError(SourceError):
    """The server no longer has the log at this position; the tables need a new snapshot."""


class HeadRoomError(SourceError):
    """The server may soon delete log that is not staged."""


class ForeignPositionError(SourceError):
    """The position was issued by another server, or by a log that was reset since."""


class ServerSetupError(SourceError):
    """A server variable is not what capture needs; the text names it and its value."""


class ServerChangedError(SourceError):
    """The address leads to another server than it did earlier in the same task."""

    retryable = True


class TableLockedError(SourceError):
    """Another session has locked a table that must be read, or is about to alter it."""

    retryable = True


class TableAlteredError(SourceError):
    """A table was altered while its snapshot was read; a retry begins the snapshot again."""

    retryable = True


class MemoryExhaustedError(BinlogError):
    """The operating system gave the task no more memory."""

    retryable = True


class StagingError(BinlogError):
    """The object store failed, or a file in it is missing or damaged."""


class StoreUnavailableError(StagingError):
    """The object store failed a read or a write that may succeed later."""

    retryable = True


class ObjectMissingError(StagingError):
    """Nothing is stored under the key."""


class ManifestError(StagingError):
    """A manifest is unreadable, foreign, or leaves a gap to the one before it."""


class ConflictError(StagingError):
    """Another writer created the key first."""


class SparkJobError(StagingError):
    """Spark failed while its executors staged; a retry continues with what is not staged yet."""

    retryable = True


class CheckpointError(BinlogError):
    """The saved position cannot be used."""


class CheckpointMissingError(CheckpointError):
    """Nothing is saved for this source, and the DAG author chose no start."""


class CheckpointMovedError(CheckpointError):
    """The saved position is not the one this run started from."""


class MergeError(BinlogError):
    """The staged changes cannot be applied to a target table."""


class ReloadNeededError(MergeError):
    """The staged changes do not say what the rows of a table are: it is stale until a reload."""


class UnknownMergeError(MergeError):
    """Spark failed for a reason that is not known here; the merge may run again."""

    retryable = True


class TargetConflictError(MergeError):
    """Another writer committed to the target table first; the merge may run again."""

    retryable = True


MALFORMED = (
    *(ArithmeticError, AttributeError, FormatError, LookupError, RecursionError, TypeError),
    ValueError,
)
"""Exceptions of reading a stored JSON document that does not have the form that was written."""


def cause_of(error: Exception) -> str:
    """Return why a stored document was refused: what our own errors say, or the exception."""
    return str(error) if isinstance(error, BinlogError) else repr(error)


Refuse: TypeAlias = Callable[[BinlogError], None]
"""Takes what is refused: raises it, or takes note of it and returns, and reading continues."""


def raise_error(error: BinlogError) -> NoReturn:
    """Refuse by raising; a `Refuse`."""
    raise error


@contextmanager
def error_context(**context: object) -> Iterator[None]:
    """Add context to every `BinlogError` that passes; what the error itself says is kept."""
    try:
        yield
    except BinlogError as error:
        error.context |= {**context, **error.context}
        raise
