"""FLOAT and DOUBLE: IEEE 754, little-endian.

Source: mysql-server sql/field.cc, Field_float::pack, Field_double::pack.
"""

from __future__ import annotations

import pyarrow as pa

from airflow_provider_binlog.rows.values import Array, Plan, Values, array_of


def float_plan() -> Plan:
    """Return how to read FLOAT: float32."""
    return Plan(pa.float32(), _float, size=4)


def double_plan() -> Plan:
    """Return how to read DOUBLE: float64."""
    return Plan(pa.float64(), _double, size=8)


def _float(values: Values) -> Array:
    return array_of(pa.float32(), values.read("<u4"), values.null)


def _double(values: Values) -> Array:
    return array_of(pa.float64(), values.read("<u8"), values.null)
