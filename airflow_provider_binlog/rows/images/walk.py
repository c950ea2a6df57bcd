"""Find every value of many row images at once, in lock-step.

A row's offset depends on the row before it, but events do not depend on each other. So one vector
holds the cursor of every event; step k reads image k of all events: its NULL bits, then column
after column, until no event has bytes left.

    image: | NULL bits, one per column | values of the columns that are not NULL, no gaps |

Columns of fixed width need no step of their own: a run of such columns is one addition. Images of
fixed width without any NULL lie at equal distances, and take no walk.

Nothing is read outside the memory: cursors that leave it read its end, and count as overrun.

Source: mysql-server sql/rpl_record.cc, unpack_row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from airflow_provider_binlog.errors import TruncatedError
from airflow_provider_binlog.rows.images.headers import WORD_BITS, Presence, any_bit
from airflow_provider_binlog.rows.images.located import Images, Route, read_lengths
from airflow_provider_binlog.rows.values import Int64Array, Memory

FEW_EVENTS = 16
"""So few events are walked image by image: 3 microseconds an image, against 40 a step."""

# Of what follows, a byte in every line of the processor's cache is looked at, and forgotten: that
# is the fastest way to have the lines there when single words are gathered from them.
_AHEAD = (64, 128)


@dataclass(frozen=True)
class _Walked:
    """Some images' parts, in any order.

    Attributes:
        event, number: As in `Images`.
        parts: int64; a row of begins, one of stops per segment, one of NULL bits per 64 columns,
            and where some image has options, one of the offsets of their bits.
    """

    event: Int64Array
    number: Int64Array
    parts: npt.NDArray[np.int64]


def locate(
    route: Route,
    memory: Memory,
    cursor: Int64Array,
    end: Int64Array,
    presence: Presence | None = None,
) -> Images:
    """Find every value of the images from `cursor` to `end` of each event.

    Without `presence`, all images hold all of the route's columns.

    Raises:
        TruncatedError: An event ends inside an image.
        UnsupportedError: The options of an after-image are not known.
    """
    if presence is None:
        images = _of_one_size(route, memory, cursor, end)
        if images is not None:
            return images
    event = np.arange(len(cursor))
    walked: list[_Walked] = []
    number = 0
    nullish = 0
    while True:
        alive = cursor < end
        if presence is not None and not number:
            alive |= presence.nothing
        if np.count_nonzero(alive) < len(alive):
            _check_ends(cursor, end, event)
            event, cursor, end = event[alive], cursor[alive], end[alive]
        if len(event) < FEW_EVENTS:
            break
        parts, cursor, some_null = _step(route, memory, cursor, event, number, presence)
        nullish |= some_null
        walked.append(_Walked(event, np.full(len(event), number), parts))
        number += 1
    if len(event):
        rest, some_null = _one_by_one(
            route, memory, event, cursor, end, number=number, presence=presence
        )
        nullish |= some_null
        walked.append(rest)
    options = presence is not None and presence.options is not None
    return _in_log_order(route, memory, walked, nullish, options=options)


def _of_one_size(
    route: Route, memory: Memory, cursor: Int64Array, end: Int64Array
) -> Images | None:
    """Return the images where all columns are of fixed width and none is NULL, else None.

    An image without NULL ends where its columns' sizes say, and so the next one is found too: the
    first one with a NULL shows it, whatever is read after it.
    """
    if any(segment.prefix for segment in route.segments):
        return None
    stops = route.null_bytes + np.cumsum([segment.size for segment in route.segments])
    size = stops[-1]
    count, rest = np.divmod(end - cursor, size)
    if rest.any() or (count < 0).any():
        return None
    event = np.repeat(np.arange(len(cursor)), count)
    number = np.arange(len(event)) - np.repeat(np.cumsum(count) - count, count)
    begin = cursor[event] + number * size
    nulls = np.empty((len(route.null_masks), len(event)), dtype=np.int64)
    for word, mask in enumerate(route.null_masks):
        np.bitwise_and(memory.i8[np.minimum(begin + 8 * word, memory.size)], mask, out=nulls[word])
    if nulls.any():
        return None
    return Images(route, memory, event, number, begin, begin + stops[:, None], nulls, nullish=0)


def _check_ends(cursor: Int64Array, end: Int64Array, event: Int64Array) -> None:
    over = cursor > end
    if over.any():
        raise TruncatedError("a rows event ends inside a row", event=int(event[over.argmax()]))


def _step(  # noqa: PLR0917 - a step, of which events, and what they hold
    route: Route,
    memory: Memory,
    cursor: Int64Array,
    event: Int64Array,
    number: int,
    presence: Presence | None,
) -> tuple[npt.NDArray[np.int64], Int64Array, int]:
    """Walk image `number` of each event; absent columns count as NULL.

    Returns `_Walked.parts`, the cursors after the images, and the columns that are NULL somewhere.
    """
    for ahead in _AHEAD:
        memory.u1.take(cursor + ahead, mode="clip")
    width, words = len(route.segments), len(route.null_masks)
    options = None if presence is None else presence.options
    step = np.empty((1 + width + words + (options is not None), len(cursor)), dtype=np.int64)
    step[0] = cursor
    if options is not None:
        step[-1] = 0
        if number & 1:
            cursor = options.read(memory, cursor, event, step[-1])
    nulls = step[1 + width : 1 + width + words]
    if presence is not None:
        cursor = presence.read_missing(memory, cursor, presence.number[number & 1][event], nulls)
    else:
        for word, mask in enumerate(route.null_masks):
            at = cursor if not word else np.minimum(cursor + 8 * word, memory.size)
            np.bitwise_and(memory.i8[at], mask, out=nulls[word])
        cursor = cursor + route.null_bytes
    some_null = 0
    for word, bits in enumerate(nulls):
        some_null |= any_bit(bits) << WORD_BITS * word
    return step, _walk_values(route, memory, cursor, some_null, step[1:]), some_null


def _walk_values(
    route: Route, memory: Memory, cursor: Int64Array, some_null: int, step: npt.NDArray[np.int64]
) -> Int64Array:
    """Walk the values of one image of each event; return the cursors after the images.

    `step` holds a row of stops per segment, which are set here, then the NULL bits.
    """
    nulls = step[len(route.segments) :]
    ahead = 0  # still to be added to the cursors, with what is added next
    for segment, out in zip(route.segments, step, strict=False):
        if not some_null & segment.columns:
            cursor, ahead = np.add(cursor, segment.size + ahead, out=out), 0
            if segment.prefix:
                cursor, ahead = cursor + _read_lengths(memory, out, segment.prefix), segment.prefix
            continue
        word, shift = divmod(segment.first, WORD_BITS)
        bits = nulls[word] >> shift
        bits &= segment.mask
        np.add(cursor, segment.sizes.take(bits), out=out)
        np.add(out, ahead, out=out)
        cursor, ahead = out, 0
        if segment.prefix:
            cursor = _read_lengths(memory, out, segment.prefix) + np.int64(segment.prefix)
            cursor *= segment.present.take(bits)
            cursor += out
    return cursor + ahead


def _read_lengths(memory: Memory, stop: Int64Array, prefix: int) -> npt.NDArray[np.integer]:
    """Return the lengths at these cursors, which are held inside the memory."""
    if prefix == 1:
        return memory.u1.take(stop, mode="clip")
    np.minimum(stop, memory.size, out=stop)
    return read_lengths(memory, stop, prefix)


def _one_by_one(
    route: Route,
    memory: Memory,
    event: Int64Array,
    cursor: Int64Array,
    end: Int64Array,
    *,
    number: int,
    presence: Presence | None,
) -> tuple[_Walked, int]:
    """Walk the images of a few events from image `number` on, and return which columns are NULL."""
    data = memory.u1.data  # a slice beyond its end is short, and reads as a smaller length
    mask, size = (1 << len(route.plans)) - 1, route.null_bytes
    events, numbers, nulls, options = [], [], [], []
    parts: list[int] = []
    nullish = 0
    for which, begin, stop in zip(event.tolist(), cursor.tolist(), end.tolist(), strict=True):
        at, image = begin, number
        read = None if presence is None else presence.reader(which)
        nothing = presence is not None and not number and presence.nothing[which]
        while at < stop or nothing:
            events.append(which)
            numbers.append(image)
            parts.append(at)
            if read is None:
                null = int.from_bytes(data[at : at + size], "little") & mask
                at += size
            else:
                at, null, offset = read(data, at, image)
                options.append(offset)
            nulls.append(null)
            nullish |= null
            at = _walk_image(route, data, at, null, parts)
            image += 1
            nothing = False
        if at > stop:
            raise TruncatedError("a rows event ends inside a row", event=which)
    rows, words = 1 + len(route.segments), len(route.null_masks)
    has_options = presence is not None and presence.options is not None
    joined = np.empty((rows + words + has_options, len(events)), dtype=np.int64)
    joined[:rows] = np.array(parts, dtype=np.int64).reshape(-1, rows).T
    for word in range(words):
        bits = [null >> WORD_BITS * word & (1 << WORD_BITS) - 1 for null in nulls]
        joined[rows + word] = np.array(bits, dtype=np.uint64).view(np.int64)
    if has_options:
        joined[-1] = options
    return _Walked(np.array(events), np.array(numbers), joined), nullish


def _walk_image(route: Route, data: memoryview, at: int, null: int, stops: list[int]) -> int:
    """Walk one image's values from `at` on, add the stops, and return where the image ends."""
    for segment in route.segments:
        bits = null >> segment.first & segment.mask
        at += int(segment.sizes[bits]) if bits else segment.size
        stops.append(at)
        if segment.prefix and not bits >> len(segment.run):
            at += segment.prefix + int.from_bytes(data[at : at + segment.prefix], "little")
    return at


def _in_log_order(
    route: Route, memory: Memory, walked: list[_Walked], nullish: int, *, options: bool
) -> Images:
    """Join what was found, image 0 of all events and image 1 of all events, event by event."""
    rows = 1 + len(route.segments) + len(route.null_masks) + options
    if not walked:
        nothing = np.zeros(0, dtype=np.int64)
        walked = [_Walked(nothing, nothing, np.zeros((rows, 0), dtype=np.int64))]
    event, number, parts = walked[0].event, walked[0].number, walked[0].parts
    if len(walked) > 1:
        event = np.concatenate([images.event for images in walked])
        number = np.concatenate([images.number for images in walked])
        count = np.bincount(event)
        order = np.empty(len(event), dtype=np.int64)
        order[(np.cumsum(count) - count)[event] + number] = np.arange(len(event))
        parts = np.concatenate([images.parts for images in walked], axis=1).take(order, axis=1)
        event, number = event[order], number[order]
    begin, rest, bits = parts[0], parts[1:], parts[-1] if options else None
    stops, nulls = rest[: len(route.segments)], rest[len(route.segments) :]
    return Images(route, memory, event, number, begin, stops, nulls, nullish, bits)
