"""Values of the properties of lake tables: one that somebody edited is refused by its name."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import MALFORMED, MergeError, cause_of
from airflow_provider_binlog.spark.target.mark import Mark

if TYPE_CHECKING:
    from collections.abc import Iterator


def read_key(value: str, name: str) -> tuple[str, ...]:
    """Return the names of columns in a JSON list.

    Raises:
        MergeError: It is none; `name` is that of the property.
    """
    with _naming(name):
        return tuple(map(_text, json.loads(value)))


def read_fields(value: str, name: str) -> dict[int, tuple[str | None, Mark]]:
    """Return the pairs of a JSON map from field ids to columns and applied marks.

    Raises:
        MergeError: It is none; `name` is that of the property.
    """
    with _naming(name):
        return {
            int(field): (None if column is None else _text(column), Mark.parse(since))
            for field, (column, since) in json.loads(value).items()
        }


@contextmanager
def _naming(name: str) -> Iterator[None]:
    try:
        yield
    except MALFORMED as error:
        raise MergeError(
            "a property of the lake table was edited: set it as it was, or drop the table, and "
            "load it from a snapshot",
            property=name,
            cause=cause_of(error),
        ) from error


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"not a text: {value!r}")
    return value
