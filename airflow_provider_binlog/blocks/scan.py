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

_WORD = 4

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
        if end - begin < _WORD or not self._server_ids:
            return np.empty(0, dtype=np.int64)
        found = [
            _find(data[piece : min(piece + _PIECE_BYTES + _WORD - 1, end)], self._server_ids)
            + piece
            for piece in range(begin, end - _WORD + 1, _PIECE_BYTES)
        ]
        return np.concatenate(found)


def _find(octets: npt.NDArray[np.uint8], server_ids: list[int]) -> npt.NDArray[np.int64]:
    """Return where one of the ids begins.

    The bytes are compared as words of four, at each of the four ways to divide them into words:
    that takes fewer comparisons than byte by byte, and words are searched for hits, not bytes.
    """
    count = (len(octets) - _WORD + 1) // _WORD
    hits = np.empty((_WORD, count), dtype=bool)
    for first, hit in enumerate(hits):
        words = np.ndarray((count,), "<u4", octets.data, offset=first)
        np.equal(words, server_ids[0], out=hit)
        for server_id in server_ids[1:]:
            np.logical_or(hit, words == server_id, out=hit)
    word = np.flatnonzero(hits[0] | hits[1] | hits[2] | hits[3])
    own = hits.take(word, axis=1).view(np.uint8)
    if np.count_nonzero(own) == len(word):
        found: npt.NDArray[np.int64] = _WORD * word + (own[1] + 2 * own[2] + 3 * own[3])
    else:  # an id that overlaps itself
        which, shift = np.nonzero(own.T)
        found = _WORD * word[which] + shift
    last = octets[_WORD * count :].tobytes()
    rest = [
        _WORD * count + at
        for at in range(len(last) - _WORD + 1)
        if int.from_bytes(last[at : at + _WORD], "little") in server_ids
    ]
    return np.append(found, rest).astype(np.int64) if rest else found


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
