"""Hashes in place of the values of a column: `protected_columns.py` says what is hashed.

Equal values of an array are hashed once; each takes a step in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.binlog.events.table_map import TableMapColumn
from airflow_provider_binlog.blocks.arrays import of_numbers, of_texts
from airflow_provider_binlog.changes import InvalidText, Policies, ZeroDates
from airflow_provider_binlog.protected_columns import (
    HashSecret,
    float_text,
    moment_text,
    number_text,
)
from airflow_provider_binlog.rows.types.registry import readers_of
from airflow_provider_binlog.rows.values import Array

Hash: TypeAlias = "Callable[[Array], Array]"
"""Returns the hashes of the values of a column, NULL for NULL."""

_T = ColumnType
_TEXTS: dict[int, Callable[[Any], str]] = {
    **dict.fromkeys((_T.FLOAT, _T.DOUBLE), float_text),
    _T.NEWDECIMAL: number_text,
    _T.YEAR: "{:04}".format,
    **dict.fromkeys((_T.TIME, _T.DATETIME, _T.TIMESTAMP), moment_text),
    **dict.fromkeys((_T.TIME2, _T.DATETIME2, _T.TIMESTAMP2), moment_text),
}
_DIGITS = 6


def hash_policies(policies: Policies) -> Policies:
    """Return how values are read that are hashed, so that the policies do not change the hash.

    A zero date has a text, too. Text is hashed in UTF-8, also where text is staged as bytes.
    """
    refuses = policies.invalid_text is InvalidText.FAIL
    invalid_text = policies.invalid_text if refuses else InvalidText.REPLACE
    return replace(policies, zero_dates=ZeroDates.TEXT, invalid_text=invalid_text)


def make_hash(column: TableMapColumn, secret: HashSecret) -> Hash:
    """Return what hashes the decoded values of a column."""

    def hash_values(array: Array) -> Array:
        if pa.types.is_list(array.type):  # Arrow has no dictionary of lists
            index: Array = of_numbers(np.arange(len(array)), _nulls(array))
            return of_texts(secret.digests(_vectors(array))).take(index)
        encoded: Any = array.dictionary_encode()
        digests = of_texts(secret.digests(_bytes(encoded.dictionary, column)))
        return digests.take(encoded.indices)

    return hash_values


def _nulls(array: Array) -> Any:
    return array.is_null().to_numpy(zero_copy_only=False)


def _vectors(array: Array) -> list[bytes]:
    return [np.array(vector or (), dtype="<f4").tobytes() for vector in array.to_pylist()]


def _bytes(values: Array, column: TableMapColumn) -> list[bytes]:
    """Return what is hashed of values, none of them NULL."""
    if pa.types.is_binary(values.type) and column.real_type != _T.BIT:
        octets: list[Any] = values.to_pylist()
        return octets
    text = _TEXTS.get(column.real_type, str)
    shown: list[Any] = readers_of(column).show(values, _DIGITS)
    return [text(value).encode() for value in shown]
