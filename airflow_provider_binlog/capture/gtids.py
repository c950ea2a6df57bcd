"""GTIDs executed and GTIDs logged before a position, and transactions that are already staged.

The GTIDs executed are read from the log itself: the set that a file begins with, and the
transactions after it. The server's status row is of another moment than its position.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from airflow_provider_binlog.binlog.events.gtid import read_gtid_list
from airflow_provider_binlog.binlog.gtid_set import (
    GtidSet,
    MariadbGtidPosition,
    join_gtids,
    missing_gtids,
)
from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.blocks.block import IS_GROUP_START, EventBlock
from airflow_provider_binlog.blocks.transactions import NO_NAME, TransactionReader
from airflow_provider_binlog.errors import ForeignPositionError, FormatError, TruncatedError
from airflow_provider_binlog.position import Flavor, Position


class ExecutedGtids:
    """GTIDs executed before a position in the log; unknown until the log states them."""

    def __init__(self, flavor: Flavor, text: str | None) -> None:
        self._set: GtidSet | None = None
        self._last: MariadbGtidPosition | None = None
        self._before = GtidSet()
        self._file = ""
        if text is not None and flavor is Flavor.MYSQL:
            self._before = GtidSet.parse(text)
            self._set = GtidSet.parse(text)
        elif text is not None:
            self._last = MariadbGtidPosition.parse(text)

    def reset(self) -> None:
        """Forget the GTIDs: reading continues at a position where they are unknown."""
        self._set, self._last, self._before, self._file = None, None, GtidSet(), ""

    @property
    def text(self) -> str | None:
        """MySQL's GTID set or MariaDB's list; None where it is unknown."""
        executed = self._set if self._set is not None else self._last
        return None if executed is None else str(executed)

    def read(
        self,
        block: EventBlock,
        prefix: npt.NDArray[np.int64],
        number: npt.NDArray[np.int64],
        prefixes: list[str],
    ) -> None:
        """Add the transactions that begin in the next block; see `Transactions`.

        Raises:
            ForeignPositionError: A transaction was executed before the position where it is logged.
            FormatError: A GTID of MySQL is in a log of MariaDB.
            TruncatedError: The file begins after transactions that no file before it has.
        """
        for event in np.flatnonzero(block.type == EventType.PREVIOUS_GTIDS).tolist():
            previous = GtidSet.decode(bytes(block.body(event)))
            if self._set is not None and block.file != self._file:
                _refuse_gap(str(previous.subtract(self._set)), block.file)
            # A server that was made from a backup executed more than any of its files says.
            self._set = previous.union(self._before)
            self._file = block.file
        for event in np.flatnonzero(block.type == EventType.MARIADB_GTID_LIST).tolist():
            last = MariadbGtidPosition.of(read_gtid_list(block.body(event), block.format))
            if self._last is not None and self._file not in ("", block.file):
                _refuse_gap(str(last.beyond(self._last)), block.file)
            self._last = last
            self._file = block.file
        self._file = block.file
        if self._last is not None:
            # Only the newest transaction of each server, in log order: a domain's position is the
            # last GTID logged in it, whichever server wrote that.
            used, from_end = np.unique(prefix[::-1], return_index=True)
            for index in np.argsort(-from_end).tolist():
                domain, server = _domain_and_server(prefixes, int(used[index]), block.file)
                sequence = int(number[len(number) - 1 - int(from_end[index])])
                self._last = self._last.update(domain, server, sequence)
        elif self._set is not None:
            for index in np.unique(prefix).tolist():
                if index != NO_NAME:
                    numbers = np.sort(number[prefix == index])
                    self._add(self._set, prefixes[index], numbers, block.file)

    def _add(
        self, executed: GtidSet, prefix: str, numbers: npt.NDArray[np.int64], file: str
    ) -> None:
        """Add the transactions of one server and tag: `uuid:` or `uuid:tag:` is the prefix."""
        server, _, tag = prefix.rstrip(":").partition(":")
        steps = np.diff(numbers)
        breaks = np.flatnonzero(steps > 1)
        firsts = numbers[np.concatenate([[0], breaks + 1])].tolist()
        lasts = numbers[np.concatenate([breaks, [len(numbers) - 1]])].tolist()
        fresh = GtidSet()
        for first, last in zip(firsts, lasts, strict=True):
            fresh.add_interval(server, tag, first, last)
        if (steps == 0).any() or executed.intersects(fresh):
            raise ForeignPositionError(
                "a transaction in the log was executed before the position: the log was reset, "
                "or the position is another server's; take a new snapshot",
                gtids=str(fresh)[:200],
                file=file,
            )
        self._set = executed.union(fresh)


def _domain_and_server(prefixes: list[str], prefix: int, file: str) -> tuple[int, int]:
    text = "" if prefix == NO_NAME else prefixes[prefix]
    domain, _, server = text.rstrip("-").partition("-")
    if not (domain.isdigit() and server.isdigit()):
        raise FormatError("a GTID of MySQL in a log of MariaDB", file=file)
    return int(domain), int(server)


def _refuse_gap(missing: str, file: str) -> None:
    """Refuse a file if transactions are missing before it, as after a file that was cut."""
    if missing:
        raise TruncatedError(
            "transactions are missing before a file: the previous file was cut when it was "
            "copied, or the position's GTIDs are not those of its place",
            file=file,
            gtids=missing[:200],
        )


class StagedTransactions:
    """Skips transactions that are staged from another server's log, and logged in this one too.

    Two servers need not log the same transactions in the same order: a replica commits several at
    once, and MariaDB's domains do not wait for each other. So transactions of the start's GTID set
    may be logged after the offset of the first transaction that is not in the set. The GTIDs
    `keep` are not skipped.
    """

    def __init__(self, flavor: Flavor, start: Position, *, keep: Collection[str | None]) -> None:
        self._staged = start.gtid or ""
        self._by_prefix = _GtidNumbers(flavor, self._staged)
        self._flavor = flavor
        self._keep = frozenset(keep)
        self._names = TransactionReader()
        self._logged = ExecutedGtids(flavor, start.logged)
        self._file = ""
        self._skips = False  # the transaction that is open

    def choose_new(self, block: EventBlock) -> list[EventBlock]:
        """Return the next block without staged transactions; an empty list if nothing is left.

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
        return [block.choose(left)] if len(left) else []

    def at(self, stop: Position) -> Position:
        """Return a stop with the GTIDs executed and the GTIDs logged before it."""
        logged = self._logged.text
        if logged is None:
            return replace(stop, gtid=self._staged)
        return position_with_gtids(self._flavor, stop, staged=self._staged, logged=logged)

    def _are_staged(
        self, prefix: npt.NDArray[np.int64], number: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        staged = np.zeros(len(prefix), dtype=bool)
        for index in np.unique(prefix).tolist():
            if index != NO_NAME:
                own = prefix == index
                staged[own] = self._by_prefix.contains(self._names.prefixes[index], number[own])
        # XA transactions in doubt are in the set, but their changes are not staged: keep them.
        for transaction in np.flatnonzero(staged).tolist() if self._keep else []:
            index = int(prefix[transaction])
            name = f"{self._names.prefixes[index]}{int(number[transaction])}"
            staged[transaction] = name not in self._keep
        return staged


class _GtidNumbers:
    """The numbers of a GTID set, by prefix."""

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
        executed: npt.NDArray[np.bool_] = number <= newest
        return executed


def position_with_gtids(
    flavor: Flavor, position: Position, *, staged: str, logged: str
) -> Position:
    """Return a position with the GTIDs executed before it.

    Some of the GTIDs already staged may be logged after it; `logged` are those logged before it.
    """
    before, executed = join_gtids(flavor, logged, ""), join_gtids(flavor, logged, staged)
    return replace(position, gtid=executed, logged=None if executed == before else before)


def is_logged(flavor: Flavor, gtid: str, position: Position) -> bool:
    """Whether a transaction that was executed before a position is logged before it."""
    return position.logged is None or not missing_gtids(flavor, gtid, position.logged)
