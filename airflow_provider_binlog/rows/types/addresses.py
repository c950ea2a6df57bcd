"""INET4, INET6 and UUID of MariaDB, as the text that SELECT prints.

In the log they are BINARY(4) and BINARY(16), the highest byte first; only information_schema
distinguishes them. An INET6 leaves out its first longest run of zero groups, even of one group, and
ends like an INET4 if it represents one:

    ::    ::1    2001:db8::7    1::3:4:5:6:7:8    ::ffff:192.0.2.1    ::192.0.2.1

Source: mariadb plugin/type_inet/sql_type_inet.cc, Inet4::to_string and Inet6::to_string;
plugin/type_uuid/sql_type_uuid.h.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_binlog.rows.types.binary import padded
from airflow_provider_binlog.rows.values import Array, Bytes, Values, with_nulls

INET4_BYTES = 4
INET6_BYTES = 16
UUID_BYTES = 16

_GROUPS = 8
_GROUP_BITS = 16
_NO_GAP = (0, 0)
_DASHES = (4, 6, 8, 10)
_HEX = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), dtype=np.uint8)
_MAPPED = 0xFFFF

_Groups = npt.NDArray[np.uint16]


def uuids(values: Values) -> Array:
    """Read UUIDs: `123e4567-e89b-12d3-a456-426655440000`."""
    count = len(values)
    digits = _HEX.reshape(256, 2).take(padded(values, UUID_BYTES), axis=0)
    text = np.full((count, 2 * UUID_BYTES + len(_DASHES)), ord("-"), dtype=np.uint8)
    for number, (first, last) in enumerate(zip((0, *_DASHES), (*_DASHES, UUID_BYTES), strict=True)):
        text[:, 2 * first + number : 2 * last + number] = digits[:, first:last].reshape(count, -1)
    return Bytes.of_rows(text).array(pa.string(), values.null)


def inet4s(values: Values) -> Array:
    """Read INET4s: `192.0.2.1`."""
    return with_nulls(_dotted(padded(values, INET4_BYTES)), values.null)


def inet6s(values: Values) -> Array:
    """Read INET6s: `2001:db8::7`."""
    octets = padded(values, INET6_BYTES)
    groups = np.ascontiguousarray(octets).view(">u2").astype(np.uint16)
    begin, size = _gaps(groups)
    mapped = (size == 5) & (groups[:, 5] == _MAPPED)
    as_inet4 = (begin == 0) & ((size == 6) | mapped)
    # Those with the same gap are joined together, and then put back into their order.
    form = (begin * (_GROUPS + 1) + size) * 2 + as_inet4
    order, texts = [], []
    for each in np.unique(form).tolist():
        chosen = np.flatnonzero(form == each)
        gap = divmod(each // 2, _GROUPS + 1)
        order.append(chosen)
        texts.append(_join(groups[chosen], octets[chosen] if each % 2 else None, gap))
    if not texts:
        return pa.array([], pa.string())
    order_of = np.empty(len(values), dtype=np.int64)
    order_of[np.concatenate(order)] = np.arange(len(values))
    joined: Array = pa.concat_arrays(texts)
    return with_nulls(joined.take(order_of), values.null)


def _gaps(groups: _Groups) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return where the first longest run of zeros begins, and its size: 0 where there is none."""
    count = len(groups)
    run, begin, size = (np.zeros(count, dtype=np.int64) for _ in range(3))
    for index in range(_GROUPS):
        run = (run + 1) * (groups[:, index] == 0)
        longer = run > size
        size = np.where(longer, run, size)
        begin = np.where(longer, index + 1 - run, begin)
    return begin, size


def _join(groups: _Groups, octets: npt.NDArray[np.uint8] | None, gap: tuple[int, int]) -> Array:
    """Return the text of addresses with this gap; `octets` where they end like an INET4."""
    begin, size = gap
    shown = [_group_texts().take(groups[:, index]) for index in range(_GROUPS)]
    if octets is not None:
        shown[6:] = [_dotted(octets[:, 12:])]
    if gap == _NO_GAP:
        return _joined(shown, ":")
    before, after = shown[:begin], shown[begin + size :]
    empty: Array = pa.nulls(len(groups), pa.string()).fill_null("")
    ends = [_joined(part, ":") if part else empty for part in (before, after)]
    return _joined(ends, "::")


def _joined(parts: list[Array], separator: str) -> Array:
    joined: Array = pc.binary_join_element_wise(*parts, separator)  # type: ignore[call-overload]
    return joined


def _dotted(octets: npt.NDArray[np.uint8]) -> Array:
    return _joined([_octet_texts().take(octets[:, index]) for index in range(INET4_BYTES)], ".")


@cache
def _octet_texts() -> Array:
    return pa.array([str(number) for number in range(256)])


@cache
def _group_texts() -> Array:
    return pa.array([f"{number:x}" for number in range(1 << _GROUP_BITS)])
