"""Arrow arrays of NumPy's and of Python's values, and back, without pandas.

`pa.array`, `pa.scalar` and `Array.to_numpy` first look whether pandas made what they are given, and
import it for that wherever it is installed: a third of a second of processor time for every task.

Source: Arrow columnar format, fixed-size primitive and variable-size binary layout.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt


def of_numbers(
    numbers: npt.NDArray[Any], null: npt.NDArray[np.bool_] | None = None
) -> pa.Array[Any]:
    """Return an array of the numbers' type over their memory, copied only where it is scattered."""
    data = pa.py_buffer(np.ascontiguousarray(numbers).data)
    valid = None if null is None or not null.any() else _bits(~null)
    return pa.Array.from_buffers(pa.from_numpy_dtype(numbers.dtype), len(numbers), [valid, data])


def of_flags(flags: npt.NDArray[np.bool_]) -> pa.Array[Any]:
    """Return an array of booleans."""
    return pa.Array.from_buffers(pa.bool_(), len(flags), [None, _bits(flags)])


def _bits(flags: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little").data)


def of_texts(texts: Sequence[str]) -> pa.Array[Any]:
    """Return an array of strings."""
    return _joined([each.encode() for each in texts], pa.string())


def of_octets(values: Sequence[bytes]) -> pa.Array[Any]:
    """Return an array of binary values."""
    return _joined(values, pa.binary())


def _joined(values: Sequence[bytes], data_type: pa.DataType) -> pa.Array[Any]:
    bounds = np.array(list(accumulate(map(len, values), initial=0)), dtype=np.int32)
    buffers = [None, pa.py_buffer(bounds.data), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(data_type, len(values), buffers)


def numbers_of(array: pa.Array[Any]) -> npt.NDArray[Any]:
    """Return the memory of an array of integers none of which is NULL."""
    _, data = array.buffers()
    kind = np.dtype(str(array.type))  # Arrow and NumPy name them alike
    if data is None:
        return np.zeros(0, dtype=kind)
    whole: npt.NDArray[Any] = np.frombuffer(memoryview(data), dtype=kind)
    return whole[array.offset : array.offset + len(array)]
