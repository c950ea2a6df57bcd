"""The CRC32s of a whole block of events, checked together.

CRC32 is linear: `crc(A + B) = crc(A) * x**(8 * len(B)) + crc(B)` over polynomials modulo its own,
where `+` is XOR. An intact event that ends with its checksum has the same crc, `INTACT`, whatever
it says. The crc of a run of intact events therefore follows from where they end, without reading
them: the sum of `INTACT * x**(8 * bytes after the event)`. One crc over the run's bytes, one
gather from a table and one XOR over it verify all of its events.

One damaged event never escapes that would not escape its own checksum. Several in one run cancel
each other with a probability of 2**-32, as damage escapes a single checksum.

Source: zlib, crc32.c, crc32_combine; mysql-server, libs/mysql/binlog/event/binlog_event.cpp,
Log_event_footer::event_checksum_test.
"""

from __future__ import annotations

import functools
import zlib

import numpy as np
import numpy.typing as npt

# Reflected, as zlib has it: the highest bit stands for x**0.
_POLYNOMIAL = 0xEDB88320

INTACT = zlib.crc32(zlib.crc32(b"").to_bytes(4, "little"))
"""The crc of every intact event with its checksum."""

NEUTRAL = bytes.fromhex("0010e5dbbf")
"""Five bytes with the crc 0: before an event they do not change the event's crc."""

# A run's table stays in the processor's cache: 4 bytes for each byte of two runs.
_RUN_BYTES = 1 << 16


def first_damaged(
    data: npt.NDArray[np.uint8], start: npt.NDArray[np.int64], size: npt.NDArray[np.int64]
) -> int | None:
    """Return the index of the first event whose checksum is wrong, None where all are right.

    The events follow one another in `data` without a gap. `start` and `size` take in the checksum,
    and may take in `NEUTRAL` bytes before the event.
    """
    if not len(start):
        return None
    first, expected = _runs(start, size)
    view = data.data
    bound = np.append(start[first], start[-1] + size[-1]).tolist()
    for run, crc in enumerate(expected.tolist()):
        if zlib.crc32(view[bound[run] : bound[run + 1]]) != crc:
            stop = first[run + 1] if run + 1 < len(first) else len(start)
            return _damaged_in(view, start, size, range(int(first[run]), int(stop)))
    return None


def _runs(
    start: npt.NDArray[np.int64], size: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]:
    """Return the first event of every run, and the crc the run has if its events are intact.

    A run takes events that begin in the same `_RUN_BYTES`, and a longer event alone.
    """
    piece = (start - start[0]) // _RUN_BYTES
    alone = size > _RUN_BYTES
    opens = np.ones(len(start), dtype=bool)
    opens[1:] = (piece[1:] != piece[:-1]) | alone[1:] | alone[:-1]
    first = np.flatnonzero(opens)
    end = start + size
    run_end = end[np.append(first[1:] - 1, len(start) - 1)]
    bytes_after = np.repeat(run_end, np.diff(np.append(first, len(start)))) - end
    return first, np.bitwise_xor.reduceat(_intact_times_power()[bytes_after], first)


def _damaged_in(
    view: memoryview, start: npt.NDArray[np.int64], size: npt.NDArray[np.int64], events: range
) -> int:
    for index in events:
        begin = int(start[index])
        if zlib.crc32(view[begin : begin + int(size[index])]) != INTACT:
            return index
    # The crc of the run is made of theirs: it cannot be wrong while they are all right.
    raise ArithmeticError("the checksum of a run contradicts those of its events")


@functools.cache
def _intact_times_power() -> npt.NDArray[np.uint32]:
    """Return `INTACT * x**(8 * t)` for every distance t inside a run.

    Built by doubling: the second half is the first one times a constant, and a product with a
    constant is linear, so that four look-ups of a byte each make it.
    """
    # The last event of a run may begin at its very end and be as long as a run.
    count = 2 * _RUN_BYTES + 1
    table = np.empty(count, dtype=np.uint32)
    table[0] = INTACT
    have, factor = 1, 0x00800000  # x**8
    while have < count:
        more = min(have, count - have)
        table[have : have + more] = _times(table[:more], factor)
        have, factor = have + more, _multiply(factor, factor)
    return table


def _times(values: npt.NDArray[np.uint32], factor: int) -> npt.NDArray[np.uint32]:
    products = np.zeros((4, 256), dtype=np.uint32)
    for bit in range(32):
        octet, shift = divmod(bit, 8)
        has_bit = (np.arange(256) >> shift & 1).astype(bool)
        products[octet, has_bit] ^= np.uint32(_multiply(1 << bit, factor))
    result: npt.NDArray[np.uint32] = products[0][values & 0xFF]
    for octet in range(1, 4):
        result ^= products[octet][values >> np.uint32(8 * octet) & 0xFF]
    return result


def _multiply(left: int, right: int) -> int:
    """Return the product of two polynomials modulo CRC32's."""
    product = 0
    for bit in range(31, -1, -1):
        if left >> bit & 1:
            product ^= right
        right = right >> 1 ^ (_POLYNOMIAL if right & 1 else 0)
    return product
