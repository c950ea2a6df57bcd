"""Which updates change the key: the bytes of its columns before and after, compared.

Bytes, not values: a key that changes from 'a' to 'A' is one key to MySQL's collation, but two to a
lake. A column of which only a prefix is in the key is compared whole.

Source: mysql-server libs/mysql/binlog/event/rows_event.h, PRIMARY_KEY_WITH_PREFIX of TABLE_MAP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from airflow_provider_binlog.rows.images.located import Images
    from airflow_provider_binlog.rows.memory import Int64Array
    from airflow_provider_binlog.rows.values import Values

FEW_VALUES = 16
"""So few values are compared one by one, each in one call whatever its length."""


def pairs_of(images: Images, before: Int64Array) -> Images:
    """Return these before-images, each with the next image, which is its after-image."""
    return images.select(np.stack([before, before + 1], axis=1).reshape(-1))


def differs(values: Values, size: int) -> npt.NDArray[np.bool_]:
    """Return whether each pair of neighbours differs; `size` is that of fixed-width values."""
    length = np.full(len(values), size, dtype=np.int64) if values.length is None else values.length
    if values.null is not None:
        length = np.where(values.null, -1, length)
    lengths = length.reshape(-1, 2)
    differs: npt.NDArray[np.bool_] = lengths[:, 0] != lengths[:, 1]
    rest = np.flatnonzero(~differs & (lengths[:, 0] > 0))
    offset = values.offset.reshape(-1, 2)[rest]
    size_left = lengths[rest, 0]
    memory, word = values.memory, 0
    while len(rest) > FEW_VALUES:
        before = memory.word(offset[:, 0], size_left, word)
        unequal = before != memory.word(offset[:, 1], size_left, word)
        differs[rest[unequal]] = True
        word += 1
        rest_pairs = ~unequal & (size_left > 8 * word)
        rest, offset, size_left = rest[rest_pairs], offset[rest_pairs], size_left[rest_pairs]
    for pair, (one, other), count in zip(rest, offset, size_left, strict=True):
        same = np.array_equal(memory.u1[one : one + count], memory.u1[other : other + count])
        differs[pair] = not same
    return differs
