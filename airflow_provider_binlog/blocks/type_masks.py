"""Sets of event types as masks: `IS_ROWS[block.type]` says which events of a block are in one."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from airflow_provider_binlog.binlog.event_types import COMPRESSED, GROUP_STARTS, ROWS

if TYPE_CHECKING:
    from collections.abc import Iterable

TypeMask: TypeAlias = npt.NDArray[np.bool_]
"""256 entries, one per type code: whether the type is in the set."""


def type_mask(types: Iterable[int]) -> TypeMask:
    """Return the mask of a set of event types."""
    mask = np.zeros(256, dtype=np.bool_)
    mask[[int(each) for each in types]] = True
    return mask


IS_GROUP_START = type_mask(GROUP_STARTS)
IS_ROWS = type_mask(ROWS)
IS_COMPRESSED = type_mask(COMPRESSED)
