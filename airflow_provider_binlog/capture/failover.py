"""The XA transactions in doubt at a failover, in the log of the promoted replica."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_binlog.capture.capture_range import prepared_between
from airflow_provider_binlog.capture.staged_transactions import is_logged
from airflow_provider_binlog.errors import ForeignPositionError, PositionPurgedError
from airflow_provider_binlog.position import FIRST_OFFSET, Position, split_file_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_provider_binlog.manifest import Prepared
    from airflow_provider_binlog.position import Flavor
    from airflow_provider_binlog.transport.block_stream import BlockStream


def find_prepared(
    source: BlockStream, flavor: Flavor, at: Position, prepared: Sequence[Prepared]
) -> tuple[Prepared, ...]:
    """Return the XA transactions in doubt, each with its position in this server's log.

    They are searched for in the files before `at`, the newest first. One that is logged after it
    is returned as it is: it is read there.

    Raises:
        PositionPurgedError: One is nowhere in this server's log.
    """
    wanted = {each.gtid for each in prepared if each.gtid and is_logged(flavor, each.gtid, at)}
    unnamed = [each for each in prepared if each.gtid is None]
    found: dict[str | None, Prepared] = {}
    for start, stop in _files_before(at) if wanted else ():
        try:
            here = prepared_between(source, start, stop)
        except (ForeignPositionError, PositionPurgedError):
            break  # there is no such file
        found |= {each.gtid: each for each in here if each.gtid in wanted}
        if len(found) == len(wanted):
            break
    lost = [*unnamed, *(each for each in prepared if each.gtid in wanted - found.keys())]
    if lost:
        raise PositionPurgedError(
            "the log of the promoted replica lacks XA transactions that are in doubt: "
            "take a new snapshot there",
            xids=[each.xid for each in lost],
        )
    return tuple(
        replace(each, file=found[each.gtid].file, offset=found[each.gtid].offset)
        if each.gtid in found
        else each
        for each in prepared
    )


def _files_before(at: Position) -> Iterator[tuple[Position, Position]]:
    """Yield the ranges to read, file by file, the newest first."""
    log_name, number = split_file_name(at.file)
    width = len(at.file) - len(log_name) - 1
    stop = at
    while number > 0:
        start = Position(f"{log_name}.{number:0{width}}", FIRST_OFFSET)
        yield start, stop
        stop, number = start, number - 1
