"""VECTOR: floats end to end, IEEE 754, little-endian; as many as the value has.

Source: mysql-server sql/field.h, Field_vector; mariadb sql/sql_type_vector.cc.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.rows.values import (
    Array,
    Values,
    array_of,
    buffer_of,
    gather_bytes,
    validity,
)

VECTOR = pa.list_(pa.float32())
FLOAT_BYTES = 4


def vectors(values: Values) -> Array:
    """Read VECTORs: lists of float32."""
    gathered = gather_bytes(values)
    if (gathered.offsets % FLOAT_BYTES).any():
        raise FormatError("a VECTOR ends inside a number")
    count = len(gathered.data) // FLOAT_BYTES
    floats = array_of(pa.float32(), gathered.data[: count * FLOAT_BYTES], None)
    offsets = gathered.offsets // np.int32(FLOAT_BYTES)
    return pa.ListArray.from_buffers(
        VECTOR,
        len(values),
        [validity(values.null), buffer_of(offsets)],
        children=[floats],
    )
