"""Translate what Spark, Delta and Iceberg raise into our errors: in particular commit conflicts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from airflow_provider_binlog import errors
from airflow_provider_binlog.spark.target.postgresql.types import NUL_REFUSED


class _Known(NamedTuple):
    """The error for Java exceptions whose class, or else whose message, a pattern matches."""

    kind: type[errors.BinlogError]
    message: str
    of_class: str | None = None
    of_text: str | None = None

    def is_of(self, name: str, text: str) -> bool:
        return any(
            pattern is not None and re.search(pattern, given)
            for pattern, given in ((self.of_class, name), (self.of_text, text))
        )


_KNOWN = (
    _Known(
        errors.ConfigurationError,
        "the Spark session is not configured for Delta tables: give the merge conf=delta_conf(), "
        "or the same settings to the cluster",
        of_text="DELTA_CONFIGURE_SPARK_SESSION",
    ),
    _Known(
        # What keeps a column as it is, and was set on the lake table by somebody else.
        errors.MergeError,
        "the lake table does not let a column change as that of its table did: remove there what "
        "depends on the column, or drop the lake table, and load it from a snapshot",
        of_text=r"Cannot (delete identifier|find source column for (sort|partition)) field"
        r"|DELTA_UNSUPPORTED_DROP_(PARTITION|CLUSTERING)_COLUMN"
        r"|DELTA_(CONSTRAINT|GENERATED_COLUMNS)_DEPENDENT_COLUMN_CHANGE",
    ),
    _Known(
        errors.MergeError,
        f"{NUL_REFUSED}: remove it at the source, or choose on_nul='strip' or 'replace' in the "
        "options of the table",
        of_text=NUL_REFUSED,
    ),
    _Known(
        errors.StagingError,
        "the store or the catalog of the lake denies access: grant it to the account of the Spark "
        "job",
        of_class=r"\b(java\.nio\.file\.AccessDeniedException|AccessControlException)\b"
        r"|^org\.apache\.iceberg\.exceptions\.ForbiddenException$"
        r"|^software\.amazon\.awssdk\.services\.glue\.model\.AccessDeniedException$",
        # What a file system of Hadoop translates, Iceberg's S3FileIO does not.
        of_text=r"\(Service: S3, Status Code: 403\b",
    ),
    _Known(
        errors.TargetConflictError,
        "another writer committed to the target first",
        of_class=r"^io\.delta\.exceptions\.(Concurrent|MetadataChanged|ProtocolChanged)"
        r"|^org\.apache\.spark\.sql\.delta\.(Concurrent|MetadataChanged|ProtocolChanged)"
        r"|^org\.apache\.iceberg\.exceptions\.(CommitFailed|CommitStateUnknown|AlreadyExists)"
        r"|TableAlreadyExistsException$",
        of_text=r"Found conflicting (deleted )?files|DELTA_TABLE_ALREADY_EXISTS"
        r"|TABLE_OR_VIEW_ALREADY_EXISTS|DELTA_CONCURRENT"
        r"|Cannot commit(, missing data files| .* stale)"
        r"|DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION",
    ),
    _Known(
        # Parts were there a moment ago: mostly it is one of the lake table, that was removed.
        errors.UnknownMergeError,
        "a file was removed while the merge read it",
        of_class=r"^java\.io\.FileNotFoundException$",
        of_text=r"FAILED_READ_FILE\.FILE_NOT_EXIST",
    ),
    _Known(
        errors.StoreUnavailableError,
        "the store failed under the merge",
        of_class=r"^java\.net\.|^org\.apache\.http\.conn|SdkClientException$"
        r"|AWSServiceThrottledException$|AWSStatus500Exception$|NoHttpResponseException$"
        r"|SocketTimeoutException$",
    ),
)
_TEXT_SIZE_MAX = 500


def explain(error: Exception, **where: str) -> errors.BinlogError:
    """Return our error for whatever a merge raised; `where` becomes part of its context."""
    if isinstance(error, errors.BinlogError):
        if "table" in where:
            error.context.setdefault("table", where["table"])
        return error
    causes = list(_causes(error))
    cause = _describe(causes) if causes else _shorten(f"{type(error).__name__}: {error}")
    context = where | {"cause": cause}
    for name, text in causes:
        for known in _KNOWN:
            if known.is_of(name, text):
                return known.kind(known.message, **context)
    return errors.UnknownMergeError("the merge failed", **context)


def _describe(causes: Sequence[tuple[str, str]]) -> str:
    """Return what failed, and what failed first."""
    (_, last), (name, first) = causes[0], causes[-1]
    if first in last:
        return _shorten(last)
    return f"{_shorten(last)} (caused by {name}: {_shorten(first)})"


def _causes(error: Exception) -> Iterator[tuple[str, str]]:
    """Yield class name and text of each Java exception that caused `error`, the outermost first."""
    # Of Py4J's errors, or of PySpark's.
    throwable: Any = getattr(error, "java_exception", getattr(error, "_origin", None))
    for _ in range(20):
        if throwable is None:
            return
        yield throwable.getClass().getName(), str(throwable.getMessage())
        throwable = throwable.getCause()


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TEXT_SIZE_MAX else f"{line[:_TEXT_SIZE_MAX]}..."
