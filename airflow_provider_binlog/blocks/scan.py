"""Where events may begin: every offset with a known server id, and the chain among them.

An event's header holds the server id where it originated. Comparing all bytes with the few ids of a
log finds every header, and some offsets inside rows that happen to hold the same four bytes. The
events are those that a chain reaches: each ends where the next one begins.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from airflow_provider_binlog.binlog.header import HEADER_SIZE
from airflow_provider_binlog.blocks.unaligned import unaligned_view

SERVER_ID_OFFSET = 5
"""Where in its header an event has its server id."""

HEADER_FIELDS = {
    "timestamp": ("<u4", 0),
    "type": ("u1", 4),
    "server_id": ("<u4", SERVER_ID_OFFSET),
    "size": ("<u4", 9),
    "log_pos": ("<u4", 13),
    "flags": ("<u2", 17),
}
"""Format and offset of each field of the common header."""

HEADER = np.dtype(
    {
        "names": list(HEADER_FIELDS),
        "formats": [form for form, _ in HEADER_FIELDS.values()],
        "offsets": [offset for _, offset in HEADER_FIELDS.values()],
        "itemsize": HEADER_SIZE,
    }
)
"""The common header as a record."""

# Events with further ids are framed one at a time: a log has a handful of ids.
_SERVER_IDS_MAX = 8

# Compared at once: what fits into the processor's cache with its scratch memory.
_PIECE_BYTES = 1 << 20


class Scanner:
    """Finds the server ids that it has learned."""

    def __init__(self) -> None:
        self._server_ids: list[int] = []

    def learn(self, server_id: int) -> bool:
        """Search for one more id from now on. Return False if it is known, or too many are."""
        if server_id in self._server_ids or len(self._server_ids) == _SERVER_IDS_MAX:
            return False
        self._server_ids.append(server_id)
        return True

    def find(self, data: npt.NDArray[np.uint8], begin: int, end: int) -> npt.NDArray[np.int64]:
        """Return where one of the ids stands in `data[begin:end]`, in rising order."""
        if end - begin < 4 or not self._server_ids:
            return np.empty(0, dtype=np.int64)
        found = [
            np.flatnonzero(self._hits(data[piece : min(piece + _PIECE_BYTES + 3, end)])) + piece
            for piece in range(begin, end - 3, _PIECE_BYTES)
        ]
        return np.concatenate(found)

    def _hits(self, octets: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
        """Return, for each byte but the last three, whether an id begins there."""
        hit: npt.NDArray[np.bool_] | None = None
        equal: dict[int, npt.NDArray[np.bool_]] = {}
        for server_id in self._server_ids:
            hit_id = _hits(octets, server_id.to_bytes(4, "little"), equal)
            hit = hit_id if hit is None else np.logical_or(hit, hit_id, out=hit)
        return hit if hit is not None else np.empty(0, dtype=bool)


def _hits(
    octets: npt.NDArray[np.uint8], wanted: bytes, equal: dict[int, npt.NDArray[np.bool_]]
) -> npt.NDArray[np.bool_]:
    count = len(octets) - 3
    for octet in wanted:
        # Small ids are mostly zeros: one comparison serves three of the four bytes.
        if octet not in equal:
            equal[octet] = octets == octet
    hit = equal[wanted[0]][:count] & equal[wanted[1]][1 : count + 1]
    np.logical_and(hit, equal[wanted[2]][2 : count + 2], out=hit)
    return np.logical_and(hit, equal[wanted[3]][3 : count + 3], out=hit)


def records(
    data: npt.NDArray[np.uint8], start: npt.NDArray[np.int64], dtype: np.dtype[np.void]
) -> npt.NDArray[np.void]:
    """Return the bytes at each start as records of `dtype`, a copy.

    One gather of whole records costs a fraction of one per field.
    """
    return unaligned_view(data, f"V{dtype.itemsize}")[start].view(dtype)


def take(
    rows: npt.NDArray[np.void], which: npt.NDArray[np.int64] | npt.NDArray[np.bool_] | slice
) -> npt.NDArray[np.void]:
    """Return some of the records; a tenth of the cost of indexing them field by field."""
    return rows.view(f"V{rows.dtype.itemsize}")[which].view(rows.dtype)


def chain(
    start: npt.NDArray[np.int64], follows: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64] | slice:
    """Return which of the candidates an unbroken chain from the first one reaches.

    Candidate i begins at `start[i]`, rising, and ends at `follows[i] > start[i]`. The chain ends
    with the candidate after which no other begins.

    Candidates that follow one another are taken as one run. The runs that the chain enters are
    found by doubling: who is reached after 1, 2, 4, 8 … steps. So bytes made to look like
    headers cost no more than headers do.
    """
    count = len(start)
    broken = np.flatnonzero(follows[:-1] != start[1:])
    if not len(broken):
        return slice(0, count)
    last = np.append(broken, count - 1)
    run_count = len(last)
    target = np.searchsorted(start, follows[last])
    reaches = target < count
    reaches[reaches] = start[target[reaches]] == follows[last[reaches]]
    jump = np.append(np.where(reaches, np.searchsorted(last, target), run_count), run_count)
    reached = np.zeros(1, dtype=np.int64)
    while reached[-1] != run_count:
        reached = np.concatenate((reached, jump[reached]))
        jump = jump[jump]
    reached = reached[reached != run_count]
    step = np.zeros(count + 1, dtype=np.int8)
    step[0] = 1
    step[target[reached[:-1]]] = 1
    step[last[reached] + 1] = -1
    return np.flatnonzero(np.cumsum(step[:-1], dtype=np.int8))


def join(
    starts: list[npt.NDArray[np.int64]],
    headers: list[npt.NDArray[np.void]],
    dtype: np.dtype[np.void],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.void]]:
    """Return the parts of a block as one; no copy where there is a single part, as usual."""
    if len(starts) == 1:
        return starts[0], headers[0]
    if not starts:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=dtype)
    octets = [header.view(f"V{dtype.itemsize}") for header in headers]
    return np.concatenate(starts), np.concatenate(octets).view(dtype)
