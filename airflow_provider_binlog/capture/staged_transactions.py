"""Transactions that are already staged, from another server's log, and are logged in this one too.

Two servers need not log the same transactions in the same order: a replica commits several at once,
and MariaDB's domains do not wait for each other. So of what a GTID set holds, some may be after
the offset where the first transaction begins that is not in it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_binlog.binlog.gtid_set import GtidSet, MariadbGtidPosition
from airflow_provider_binlog.blocks.block import IS_GROUP_START, choose
from airflow_provider_binlog.blocks.transactions import TransactionReader
from airflow_provider_binlog.capture.gtids import ExecutedGtids
from airflow_provider_binlog.position import Flavor

if TYPE_CHECKING:
    from collections.abc import Collection

    import numpy.typing as npt

    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.position import Position


class StagedTransactions:
    """Leaves out what the GTIDs of a start hold, though it is logged after the start.

    Feed it the blocks of the log as they come from a source.
    """

    def __init__(self, flavor: Flavor, start: Position, *, keep: Collection[str | None]) -> None:
        """Begin at a start whose `logged` is known; the GTIDs `keep` are let through."""
        self._staged = start.gtid or ""
        self._by_prefix = _GtidNumbers(flavor, self._staged)
        self._flavor = flavor
        self._keep = frozenset(keep)
        self._names = TransactionReader()
        self._logged = ExecutedGtids(flavor, start.logged)
        self._file = ""
        self._skips = False  # the transaction that is open

    def choose_new(self, block: EventBlock) -> list[EventBlock]:
        """Return the next block without what is staged: one block, or none if nothing is left.

        Raises:
            ForeignPositionError, TruncatedError: As `ExecutedGtids.read`.
        """
        if block.file != self._file:
            self._file, self._skips = block.file, False
        prefix, number = self._names.read_names(block)
        self._logged.read(block, prefix, number, self._names.prefixes)
        staged = np.append(self._skips, self._are_staged(prefix, number))
        self._skips = bool(staged[-1])
        if not staged.any():
            return [block]
        left = np.flatnonzero(~staged[np.cumsum(IS_GROUP_START[block.type])])
        return [choose(block, left)] if len(left) else []

    def at(self, stop: Position) -> Position:
        """Return where the log was read up to, with the GTIDs executed and those logged before."""
        logged = self._logged.text
        if logged is None:
            return replace(stop, gtid=self._staged)
        return position_with_gtids(self._flavor, stop, staged=self._staged, logged=logged)

    def _are_staged(
        self, prefix: npt.NDArray[np.int64], number: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        staged = np.zeros(len(prefix), dtype=bool)
        for each in np.unique(prefix).tolist():
            if each >= 0:
                of = prefix == each
                staged[of] = self._by_prefix.contains(self._names.prefixes[each], number[of])
        for each in np.flatnonzero(staged).tolist() if self._keep else []:
            name = f"{self._names.prefixes[int(prefix[each])]}{int(number[each])}"
            staged[each] = name not in self._keep
        return staged


class _GtidNumbers:
    """Which numbers after a prefix are in a GTID set."""

    def __init__(self, flavor: Flavor, text: str) -> None:
        self._last: dict[str, int] = {}
        self._intervals: dict[str, list[tuple[int, int]]] = {}
        if flavor is Flavor.MYSQL:
            for server, tag, first, last in GtidSet.parse(text).intervals():
                prefix = f"{server}:{tag}:" if tag else f"{server}:"
                self._intervals.setdefault(prefix, []).append((first, last))
        else:
            for domain, (_, sequence) in MariadbGtidPosition.parse(text).domains.items():
                self._last[str(domain)] = sequence

    def contains(self, prefix: str, number: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        if prefix in self._intervals:
            first, last = np.array(self._intervals[prefix]).T
            nearest = np.minimum(np.searchsorted(last, number), len(last) - 1)
            within: npt.NDArray[np.bool_] = (first[nearest] <= number) & (number <= last[nearest])
            return within
        newest = self._last.get(prefix.partition("-")[0], 0)
        until: npt.NDArray[np.bool_] = number <= newest
        return until


def position_with_gtids(
    flavor: Flavor, position: Position, *, staged: str, logged: str
) -> Position:
    """Return a position in the log with the GTIDs executed before it.

    Args:
        flavor: Whose GTIDs they are.
        position: A boundary between transactions.
        staged: What is already staged; some of it may be logged after the position.
        logged: What is before the position in the log.
    """
    if flavor is Flavor.MYSQL:
        before = GtidSet.parse(logged)
        executed = before.union(GtidSet.parse(staged))
        return replace(
            position, gtid=str(executed), logged=None if executed == before else str(before)
        )
    here = MariadbGtidPosition.parse(logged)
    domains = dict(here.domains)
    for domain, last in MariadbGtidPosition.parse(staged).domains.items():
        if domain not in domains or domains[domain][1] < last[1]:
            domains[domain] = last
    ahead = domains != here.domains
    return replace(
        position, gtid=str(MariadbGtidPosition(domains)), logged=str(here) if ahead else None
    )


def is_logged(flavor: Flavor, gtid: str, position: Position) -> bool:
    """Whether a transaction that was executed before a position is logged before it."""
    if position.logged is None:
        return True
    if flavor is Flavor.MYSQL:
        return GtidSet.parse(gtid).issubset(GtidSet.parse(position.logged))
    domain, _, sequence = map(int, gtid.split("-"))
    newest = MariadbGtidPosition.parse(position.logged).domains.get(domain, (0, 0))
    return sequence <= newest[1]
