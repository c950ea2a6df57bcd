"""Bytes, NumPy and Arrow arrays, one from the other: without a step per item.

`pa.array`, `pa.scalar` and `Array.to_numpy` import pandas where it is installed: a third of a
second of processor time for every task.

Source: Arrow columnar format, fixed-size primitive and variable-size binary layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


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
    return _joined([text.encode() for text in texts], pa.string())


def of_octets(values: Sequence[bytes]) -> pa.Array[Any]:
    """Return an array of binary values."""
    return _joined(values, pa.binary())


def _joined(values: Sequence[bytes], data_type: pa.DataType) -> pa.Array[Any]:
    bounds = np.array(list(accumulate(map(len, values), initial=0)), dtype=np.int32)
    buffers = [None, pa.py_buffer(bounds.data), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(data_type, len(values), buffers)


def dictionary(index: pa.Array[Any], texts: pa.Array[Any]) -> pa.Array[Any]:
    """Return an array of texts, each by its index, NULL where that is."""
    array: pa.Array[Any] = pa.DictionaryArray.from_arrays(index, texts)
    return array


def numbers_of(array: pa.Array[Any]) -> npt.NDArray[Any]:
    """Return the memory of an array of integers none of which is NULL."""
    _, data = array.buffers()
    kind = np.dtype(str(array.type))  # Arrow and NumPy name them alike
    if data is None:
        return np.zeros(0, dtype=kind)
    whole: npt.NDArray[Any] = np.frombuffer(memoryview(data), dtype=kind)
    return whole[array.offset : array.offset + len(array)]


_OFFSET_MAX = 2**31 - 1


def gather(
    data: npt.NDArray[np.uint8],
    begin: npt.NDArray[np.int64],
    end: npt.NDArray[np.int64],
    order: npt.NDArray[np.int64] | None = None,
) -> pa.Array[Any]:
    """Return the bytes `data[begin:end]` of each span as a binary array, a copy.

    `begin` is rising, and each `end` at most where the next span begins. `order` chooses spans.
    """
    count = len(begin)
    wide = count > 0 and int(end[-1]) > _OFFSET_MAX
    bounds = np.zeros(2 * count + 1, dtype=np.int64 if wide else np.int32)
    bounds[0:-1:2] = begin
    bounds[1::2] = end
    bounds[-1] = bounds[-2] if count else 0
    spans = pa.Array.from_buffers(
        pa.large_binary() if wide else pa.binary(),
        2 * count,
        [None, pa.py_buffer(bounds.data), pa.py_buffer(data.data)],
    )
    taken: pa.Array[Any] = spans.take(
        of_numbers(2 * (np.arange(count) if order is None else order))
    )
    return taken


def bytes_of(spans: pa.Array[Any]) -> npt.NDArray[np.uint8]:
    """Return the bytes of gathered spans, end to end, a view."""
    _, bounds, data = spans.buffers()
    if bounds is None or data is None:
        return np.zeros(0, dtype=np.uint8)
    width = "<i8" if spans.type == pa.large_binary() else "<i4"
    count = int(np.frombuffer(memoryview(bounds), dtype=width)[len(spans)])
    return np.frombuffer(memoryview(data), dtype=np.uint8, count=count)


def unaligned_view(data: npt.NDArray[np.uint8], dtype: str) -> npt.NDArray[Any]:
    """Return a view of `data` whose item `i` is the value that starts at byte `i`: no copy.

    Index it with `view[offsets]`; `take` would copy the whole view first.
    """
    width = np.dtype(dtype).itemsize
    return np.ndarray((max(0, len(data) - width + 1),), dtype, data.data, strides=(1,))
