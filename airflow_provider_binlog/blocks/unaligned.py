"""Bytes read as values of any type at any offset, whatever its alignment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt


def unaligned_view(data: npt.NDArray[np.uint8], dtype: str) -> npt.NDArray[Any]:
    """Return a view of `data` whose item `i` is the value that starts at byte `i`: no copy.

    Index it with `view[offsets]`; `take` would copy the whole view first.
    """
    width = np.dtype(dtype).itemsize
    return np.ndarray((max(0, len(data) - width + 1),), dtype, data.data, strides=(1,))
