"""The events of a block of file bytes: where they begin, and their headers as columns, checked.

Source: mysql-server, sql/binlog_reader.cc, Binlog_event_data_istream; sql/log_event.cc,
Log_event::write_header.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from airflow_provider_binlog.binlog.event_types import event_name
from airflow_provider_binlog.binlog.header import HEADER_SIZE
from airflow_provider_binlog.blocks import scan
from airflow_provider_binlog.blocks.block import HEADER_COLUMNS, EventBlock
from airflow_provider_binlog.blocks.checksums import NEUTRAL, first_damaged
from airflow_provider_binlog.errors import ChecksumError, FormatError

if TYPE_CHECKING:
    from airflow_provider_binlog.binlog.events.format_description import FormatDescription

EVENT_BYTES_MAX = (1 << 30) + (1 << 16)
"""No server writes a longer event: `max_allowed_packet` ends at 1 GiB."""

_HEADER = struct.Struct("<IBIIIH")

# To step to the next event costs as much as to search so many bytes for headers.
_LONG_EVENT_BYTES = 1024
# A statement begins with some short ones.
_SHORT_EVENTS = 16

_NEUTRAL_SIZE = len(NEUTRAL)


@dataclass(frozen=True)
class Frames:
    """The whole events at the start of some bytes.

    Attributes:
        start: int64; where each event begins.
        header: `scan.HEADER` records, one per event.
        end: Where the first event begins that is not whole.
        wanted: Bytes needed from `end` on to frame another event: the size of that event, or of
            a header if that is not whole either.
        error: Why no event can begin at `end`; None if it is only not whole.
    """

    start: npt.NDArray[np.int64]
    header: npt.NDArray[np.void]
    end: int
    wanted: int
    error: FormatError | None


class Framer:
    """Frames the bytes of one log, block after block; it learns the log's server ids.

    Args:
        own_log_pos: Whether `log_pos` is an offset in this file; in a relay log it is one in the
            source's file.
    """

    def __init__(self, *, own_log_pos: bool = True) -> None:
        self._scanner = scan.Scanner()
        self._own_log_pos = own_log_pos

    def frame(
        self, data: npt.NDArray[np.uint8], begin: int, end: int, *, file: str, offset: int
    ) -> Frames:
        """Return the whole events of `data[begin:end]`, which begins with one.

        Damage is not raised: an earlier event's checksum may be what names it.

        Args:
            data: Bytes of a file.
            begin: Where the first event begins.
            end: Where the known bytes end.
            file: Name of the file, for errors.
            offset: Offset of the first event in the file.
        """
        base = offset - begin
        first, at = self._long_events(data, begin, end, base)
        starts: list[npt.NDArray[np.int64]] = [first] if len(first) else []
        headers = [scan.records(data, each, scan.HEADER) for each in starts]
        candidate, header = self._candidates(data, at, end, base)
        while True:
            index = int(np.searchsorted(candidate, at))
            if index < len(candidate) and candidate[index] == at:
                rest, rest_header = candidate[index:], header[index:]
                chosen = scan.chain(rest, rest + rest_header["size"])
                starts.append(rest[chosen])
                headers.append(scan.take(rest_header, chosen))
                at = int(starts[-1][-1]) + int(headers[-1]["size"][-1])
                continue
            event = Outlook.at(
                data,
                at,
                end,
                file=file,
                offset=base + at,
                own_log_pos=self._own_log_pos,
            )
            if event.wanted or event.error is not None:
                start, joined = scan.join(starts, headers, scan.HEADER)
                return Frames(start, joined, at, event.wanted, event.error)
            if self._scanner.learn(event.server_id):
                candidate, header = self._candidates(data, at, end, base)
            starts.append(np.array([at]))
            headers.append(scan.records(data, starts[-1], scan.HEADER))
            at += event.size

    def _long_events(
        self, data: npt.NDArray[np.uint8], begin: int, end: int, base: int
    ) -> tuple[npt.NDArray[np.int64], int]:
        """Return the whole events up to where they are no longer long, and where that is.

        To step from one to the next costs less than to search all their bytes.
        """
        starts: list[int] = []
        at, octets = begin, data.data
        while end - at >= HEADER_SIZE:
            if at - begin < _LONG_EVENT_BYTES * (len(starts) - _SHORT_EVENTS):
                break
            _, _, _, size, log_pos, _ = _HEADER.unpack_from(octets, at)
            follows = at + size
            if size < HEADER_SIZE or follows > end:
                break
            if self._own_log_pos and log_pos and log_pos != (follows + base) & 0xFFFFFFFF:
                break
            starts.append(at)
            at = follows
        return np.array(starts, dtype=np.int64), at

    def _candidates(
        self, data: npt.NDArray[np.uint8], begin: int, end: int, base: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.void]]:
        """Return where a known server id stands in what may be the header of a whole event."""
        id_end = end - HEADER_SIZE + scan.SERVER_ID_OFFSET + 4
        start = self._scanner.find(data, begin + scan.SERVER_ID_OFFSET, id_end)
        start -= scan.SERVER_ID_OFFSET
        header = scan.records(data, start, scan.HEADER)
        follows = start + header["size"]
        fits = (header["size"] >= HEADER_SIZE) & (follows <= end)
        if self._own_log_pos:
            log_pos = header["log_pos"]
            fits &= (log_pos == 0) | (log_pos == (follows + base & 0xFFFFFFFF))
        if fits.all():
            return start, header
        which = np.flatnonzero(fits)
        return start[which], scan.take(header, which)


@dataclass(frozen=True)
class Outlook:
    """One event looked at by hand: whole, or what it lacks, or why it is none."""

    server_id: int = 0
    size: int = 0
    wanted: int = 0
    error: FormatError | None = None

    @classmethod
    def at(
        cls,
        data: npt.NDArray[np.uint8],
        at: int,
        end: int,
        *,
        file: str,
        offset: int,
        own_log_pos: bool = True,
    ) -> Outlook:
        """Look at the event that begins at `data[at]`, of which bytes up to `end` are known."""
        if end - at < HEADER_SIZE:
            return cls(wanted=HEADER_SIZE)
        _, type_code, server_id, size, log_pos, _ = _HEADER.unpack_from(data.data, at)
        if not HEADER_SIZE <= size <= EVENT_BYTES_MAX:
            wrong = FormatError("no event has this size", file=file, offset=offset, size=size)
            return cls(error=wrong)
        if at + size <= end:
            return cls(server_id, size)
        # Waiting for the rest of an event whose size is damaged could mean waiting for 4 GiB.
        if own_log_pos and log_pos and log_pos != (offset + size) & 0xFFFFFFFF:
            return cls(error=_wrong_end(file, offset, type_code, size, log_pos))
        return cls(wanted=size)


def header_columns(header: npt.NDArray[np.void]) -> dict[str, Any]:
    """Return the sizes in `scan.HEADER` records as int64, and `HEADER_COLUMNS` as they are."""
    columns = {name: header[name].copy() for name in HEADER_COLUMNS}
    return {"size": header["size"].astype(np.int64), **columns}


def checked_block(
    data: npt.NDArray[np.uint8],
    start: npt.NDArray[np.int64],
    header: npt.NDArray[np.void],
    *,
    file: str,
    description: FormatDescription,
    offset: int,
    neutral_gaps: bool = False,
    own_log_pos: bool = True,
) -> EventBlock:
    """Return framed events as a block, their checksums and offsets verified.

    Args:
        data: The events, with `block.SLACK` bytes after them; kept by the block, not copied.
        start: Where each event begins.
        header: `scan.HEADER` records, one per event.
        file: Name of the binlog file.
        description: The file's FORMAT_DESCRIPTION.
        offset: Offset of the first event in the file.
        neutral_gaps: Whether `checksums.NEUTRAL` precedes every event; else they follow
            one another without a gap.
        own_log_pos: As of `Framer`.

    Raises:
        ChecksumError: An event is damaged; the text names the type and offset of the first one.
        FormatError: The `log_pos` of an event is not where it ends.
    """
    columns = header_columns(header)
    size = columns["size"]
    follows = np.cumsum(size)
    follows += offset
    begins = follows - size
    block = EventBlock(
        file=file,
        format=description,
        data=data,
        start=start,
        **columns,
        offset=begins,
        expanded_offset=begins,
        next_offset=int(follows[-1]) if len(follows) else offset,
    )
    if description.checksum_size:
        gap = _NEUTRAL_SIZE if neutral_gaps else 0
        damaged = first_damaged(data, start - gap, size + gap)
        if damaged is not None:
            raise ChecksumError("an event is damaged: its CRC32 is wrong", **block.where(damaged))
    if own_log_pos:
        _check_ends(block, size, header["log_pos"])
    return block


def _check_ends(
    block: EventBlock, size: npt.NDArray[np.int64], log_pos: npt.NDArray[np.uint32]
) -> None:
    """Refuse an event that does not end where its header says, if that says it."""
    wrong = (log_pos != (block.offset + size & 0xFFFFFFFF)) & (log_pos != 0)
    if wrong.any():
        index = int(np.argmax(wrong))
        raise _wrong_end(
            block.file,
            int(block.offset[index]),
            int(block.type[index]),
            int(size[index]),
            int(log_pos[index]),
        )


def _wrong_end(file: str, offset: int, type_code: int, size: int, log_pos: int) -> FormatError:
    return FormatError(
        "an event does not end where its header says: damaged, or not the start of an event",
        file=file,
        offset=offset,
        event=event_name(type_code),
        size=size,
        log_pos=log_pos,
    )
