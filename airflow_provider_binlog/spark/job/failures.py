"""Translate what Spark, Delta and Iceberg raise into our errors: in particular commit conflicts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from airflow_provider_binlog.errors import (
    BinlogError,
    ConfigurationError,
    MergeError,
    StagingError,
    StoreUnavailableError,
    TargetConflictError,
    UnknownMergeError,
)

_CONFLICT = re.compile(
    r"^io\.delta\.exceptions\.(Concurrent|MetadataChanged|ProtocolChanged)"
    r"|^org\.apache\.spark\.sql\.delta\.(Concurrent|MetadataChanged|ProtocolChanged)"
    r"|^org\.apache\.iceberg\.exceptions\.(CommitFailed|CommitStateUnknown|AlreadyExists)"
    r"|TableAlreadyExistsException$"
)
_CONFLICT_TEXT = re.compile(
    r"Found conflicting (deleted )?files|DELTA_TABLE_ALREADY_EXISTS|TABLE_OR_VIEW_ALREADY_EXISTS"
    r"|DELTA_CONCURRENT|Cannot commit(, missing data files| .* stale)"
    r"|DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION"
)
_MISSING = re.compile(r"^java\.io\.FileNotFoundException$|FAILED_READ_FILE\.FILE_NOT_EXIST")
_UNREACHABLE = re.compile(
    r"^java\.net\.|^org\.apache\.http\.conn|SdkClientException$|AWSServiceThrottledException$"
    r"|AWSStatus500Exception$|NoHttpResponseException$|SocketTimeoutException$"
)
# What keeps a column as it is, and was set on the lake table by somebody else.
_FIXED = re.compile(
    r"Cannot (delete identifier|find source column for (sort|partition)) field"
    r"|DELTA_UNSUPPORTED_DROP_(PARTITION|CLUSTERING)_COLUMN"
    r"|DELTA_(CONSTRAINT|GENERATED_COLUMNS)_DEPENDENT_COLUMN_CHANGE"
)
_DENIED = re.compile(
    r"\b(java\.nio\.file\.AccessDeniedException|AccessControlException)\b"
    r"|^org\.apache\.iceberg\.exceptions\.ForbiddenException$"
)
_TEXT_SIZE_MAX = 500


def explain(error: Exception, **where: str) -> BinlogError:
    """Return our error for whatever a merge raised; `where` becomes part of its context."""
    if isinstance(error, BinlogError):
        if "table" in where:
            error.context.setdefault("table", where["table"])
        return error
    causes = list(_causes(error))
    cause = _describe(causes) if causes else _shorten(f"{type(error).__name__}: {error}")
    context = where | {"cause": cause}
    for name, text in causes:
        known = _find_refusal(name, text, where, cause) or _find_failure(name, text, context)
        if known is not None:
            return known
    return UnknownMergeError("the merge failed", **context)


def _find_refusal(name: str, text: str, where: Mapping[str, str], cause: str) -> BinlogError | None:
    """Return the error for what fails again until someone changes something."""
    if "DELTA_CONFIGURE_SPARK_SESSION" in text:
        return ConfigurationError(
            "the Spark session is not configured for Delta tables: give the merge "
            "conf=delta_conf(), or the same settings to the cluster",
            **where,
        )
    if _FIXED.search(text):
        return MergeError(
            "the lake table does not let a column change as that of its table did: remove there "
            "what depends on the column, or drop the lake table, and load it from a snapshot",
            **where,
            cause=cause,
        )
    if _DENIED.search(name):
        return StagingError(
            "the store or the catalog of the lake denies access: grant it to the account of the "
            "Spark job",
            **where,
            cause=cause,
        )
    return None


def _find_failure(name: str, text: str, context: Mapping[str, str]) -> BinlogError | None:
    """Return the error for what may pass."""
    if _CONFLICT.search(name) or _CONFLICT_TEXT.search(text):
        return TargetConflictError("another writer committed to the target first", **context)
    if _MISSING.search(name) or _MISSING.search(text):
        # Parts were there a moment ago: mostly it is one of the lake table, that was removed.
        return UnknownMergeError("a file was removed while the merge read it", **context)
    if _UNREACHABLE.search(name):
        return StoreUnavailableError("the store failed under the merge", **context)
    return None


def _describe(causes: Sequence[tuple[str, str]]) -> str:
    """Return what failed, and what failed first."""
    (_, last), (name, first) = causes[0], causes[-1]
    if first in last:
        return _shorten(last)
    return f"{_shorten(last)} (caused by {name}: {_shorten(first)})"


def _causes(error: Exception) -> Iterator[tuple[str, str]]:
    """Yield class name and text of each Java exception that caused `error`, the outermost first."""
    throwable = _throwable(error)
    for _ in range(20):
        if throwable is None:
            return
        yield throwable.getClass().getName(), str(throwable.getMessage())
        throwable = throwable.getCause()


def _throwable(error: Exception) -> Any:
    if isinstance(error, Py4JJavaError):
        return error.java_exception
    if isinstance(error, PySparkException):
        return getattr(error, "_origin", None)
    return None


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TEXT_SIZE_MAX else f"{line[:_TEXT_SIZE_MAX]}..."
