"""Sets of MySQL GTIDs, with the algebra that positions need, and MariaDB's counterpart.

Source: mysql-server, sql/rpl_gtid_set.cc, Gtid_set::encode and add_gtid_encoding, and
libs/mysql/gtid; mariadb, sql/rpl_gtid.cc, rpl_slave_state::domain_to_gtid.
"""

from __future__ import annotations

import re
import uuid as uuid_module
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from airflow_provider_binlog.binlog.buffer import Buffer
from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.position import Flavor

Interval = tuple[int, int]
"""First and last number, both in it."""

_Source = tuple[str, str]  # uuid, tag
_TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}")
_INTERVAL = re.compile(r"(\d+)(?:\s*-\s*(\d+))?", re.ASCII)
_NUMBER_MAX = (1 << 63) - 2  # the end is written as the number after the last, in 63 bits
_TAGGED_MARK = 1 << 56 | 1


class GtidSet:
    """A set of MySQL GTIDs: by server uuid and tag, intervals in order that do not touch.

        text:     uuid[:tag]:1-51[:60][:tag:5-7],uuid:...
        untagged: | 8 count | count times: 16 uuid, 8 n intervals, n times: 8 first, 8 last + 1 |
        tagged:   | 1 (1) | 6 count | 1 (1) | the same with a tag, size before it, after each uuid |

    Mutable: `add_interval` changes it; the operators return new sets. Text, bytes and numbers that
    are not valid raise `FormatError`.
    """

    __slots__ = ("_intervals",)

    def __init__(self) -> None:
        self._intervals: dict[_Source, list[Interval]] = {}

    @classmethod
    def parse(cls, text: str) -> GtidSet:
        """Read MySQL's text form; the empty text is the empty set."""
        result = cls()
        for part in filter(None, (part.strip() for part in text.split(","))):
            server, *tokens = (token.strip() for token in part.split(":"))
            uuid = _canonical_uuid(server, text)
            tag = ""
            if not tokens:
                raise FormatError("a server without numbers in a GTID set", text=text)
            for token in tokens:
                interval = _INTERVAL.fullmatch(token)
                if interval is not None:
                    first = int(interval[1])
                    last = first if interval[2] is None else int(interval[2])
                    result.add_interval(uuid, tag, first, last)
                elif _TAG.fullmatch(token.lower()):
                    tag = token.lower()
                else:
                    raise FormatError("not a GTID set", text=text, token=token)
        return result

    def __str__(self) -> str:
        """Return MySQL's text form: servers and tags in order, the untagged numbers first."""
        parts: list[str] = []
        previous = ""
        for (uuid, tag), intervals in sorted(self._intervals.items()):
            numbers = ":".join(f"{a}-{b}" if b > a else f"{a}" for a, b in intervals)
            tagged = f"{tag}:{numbers}" if tag else numbers
            if uuid == previous:
                parts[-1] += f":{tagged}"
            else:
                parts.append(f"{uuid}:{tagged}")
            previous = uuid
        return ",".join(parts)

    def encode(self) -> bytes:
        """Return the binary form, with tags if there are any: servers before 8.3 know none."""
        tagged = any(tag for _, tag in self._intervals)
        count = len(self._intervals)
        header = _TAGGED_MARK | count << 8 if tagged else count
        parts = [header.to_bytes(8, "little")]
        for (uuid, tag), intervals in sorted(self._intervals.items()):
            parts.append(uuid_module.UUID(uuid).bytes)
            if tagged:
                # The size is a varlen of one byte, the tag at most 32.
                parts.append(bytes((len(tag) << 1,)) + tag.encode("ascii"))
            parts.append(len(intervals).to_bytes(8, "little"))
            for first, last in intervals:
                parts.append(first.to_bytes(8, "little") + (last + 1).to_bytes(8, "little"))
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes | memoryview) -> GtidSet:
        """Read the binary form: the body of PREVIOUS_GTIDS."""
        result = cls()
        buffer = Buffer(data)
        header = buffer.uint(8)
        form = header >> 56
        if form > 1 or (form == 1 and header & 0xFF != 1):
            raise FormatError("unknown form of a GTID set", header=hex(header))
        count = header >> 8 & (1 << 48) - 1 if form == 1 else header
        for _ in range(count):
            uuid = str(uuid_module.UUID(bytes=bytes(buffer.take(16))))
            tag = decode_tag(buffer.take(buffer.varlen_uint())) if form == 1 else ""
            for _ in range(buffer.uint(8)):
                first, stop = buffer.uint(8), buffer.uint(8)
                result.add_interval(uuid, tag, first, stop - 1)
        if buffer.remaining:
            raise FormatError("bytes after a GTID set", left=buffer.remaining)
        return result

    def add_interval(self, uuid: str, tag: str, first: int, last: int) -> None:
        """Put the numbers from `first` to `last` into the set."""
        if not 1 <= first <= last <= _NUMBER_MAX:
            raise FormatError("not an interval of GTIDs", first=first, last=last)
        intervals = self._intervals.setdefault((uuid, tag), [])
        if not intervals or intervals[-1][1] + 1 < first:
            intervals.append((first, last))
            return
        # Merge with every interval that overlaps or touches.
        low = bisect_left(intervals, first - 1, key=lambda interval: interval[1])
        high = low
        while high < len(intervals) and intervals[high][0] <= last + 1:
            high += 1
        if low < high:
            first, last = min(first, intervals[low][0]), max(last, intervals[high - 1][1])
        intervals[low:high] = [(first, last)]

    def intervals(self) -> Iterator[tuple[str, str, int, int]]:
        """Yield (uuid, tag, first, last), in order."""
        for (uuid, tag), intervals in sorted(self._intervals.items()):
            for first, last in intervals:
                yield uuid, tag, first, last

    def union(self, other: GtidSet) -> GtidSet:
        """Return what is in either set."""
        result = GtidSet()
        result._intervals = {name: list(own) for name, own in self._intervals.items()}
        for uuid, tag, first, last in other.intervals():
            result.add_interval(uuid, tag, first, last)
        return result

    def subtract(self, other: GtidSet) -> GtidSet:
        """Return what is in this set and not in the other."""
        result = GtidSet()
        for source, intervals in self._intervals.items():
            left = _without(intervals, other._intervals.get(source, []))
            if left:
                result._intervals[source] = left
        return result

    def intersects(self, other: GtidSet) -> bool:
        """Whether any GTID is in both."""
        return self.subtract(other) != self

    def __bool__(self) -> bool:
        """Whether there is anything in the set."""
        return bool(self._intervals)

    def __eq__(self, other: object) -> bool:
        """Whether both hold the same GTIDs."""
        return isinstance(other, GtidSet) and self._intervals == other._intervals

    __hash__ = None  # type: ignore[assignment]  # mutable


def _without(intervals: list[Interval], others: list[Interval]) -> list[Interval]:
    """Return `intervals` less `others`; both and the result in order."""
    result: list[Interval] = []
    index = 0
    for begin, last in intervals:
        first = begin
        while index < len(others) and others[index][1] < first:
            index += 1
        at = index
        while at < len(others) and others[at][0] <= last:
            if others[at][0] > first:
                result.append((first, others[at][0] - 1))
            first = others[at][1] + 1
            at += 1
        if first <= last:
            result.append((first, last))
    return result


def _canonical_uuid(server: str, text: str) -> str:
    try:
        return str(uuid_module.UUID(server))
    except ValueError as error:
        raise FormatError("not a server's UUID in a GTID set", text=text, uuid=server) from error


def decode_tag(data: memoryview) -> str:
    """Return a GTID's tag, at most 32 of `a-z0-9_`; the empty one stands for none."""
    tag = bytes(data).decode("latin-1")
    if tag and _TAG.fullmatch(tag) is None:
        raise FormatError("not a tag of a GTID", tag=bytes(data).hex())
    return tag


_MARIADB_GTID = re.compile(r"\s*(\d+)-(\d+)-(\d+)\s*", re.ASCII)


@dataclass(frozen=True)
class MariadbGtidPosition:
    """The newest transaction of every replication domain: MariaDB's counterpart of a GTID set.

    Attributes:
        domains: Domain -> (server id, sequence) of its newest transaction.
    """

    domains: Mapping[int, tuple[int, int]]

    @classmethod
    def parse(cls, text: str) -> MariadbGtidPosition:
        """Read `0-1-100,7-2-5`; the empty text is the start of the log."""
        domains: dict[int, tuple[int, int]] = {}
        for part in text.split(",") if text.strip() else []:
            match = _MARIADB_GTID.fullmatch(part)
            if match is None or int(match[1]) in domains:
                raise FormatError("not a GTID position", text=text)
            domains[int(match[1])] = int(match[2]), int(match[3])
        return cls(domains)

    @classmethod
    def of(cls, gtids: Iterable[tuple[int, int, int]]) -> MariadbGtidPosition:
        """Return the position of a GTID_LIST: the last GTID of each domain."""
        return cls({domain: (server, sequence) for domain, server, sequence in gtids})

    def update(self, domain: int, server_id: int, sequence: int) -> MariadbGtidPosition:
        """Return the position after this transaction."""
        return MariadbGtidPosition({**self.domains, domain: (server_id, sequence)})

    def beyond(self, other: MariadbGtidPosition) -> MariadbGtidPosition:
        """Return the domains in which this position is ahead of the other one."""
        ahead = {
            domain: last
            for domain, last in self.domains.items()
            if domain not in other.domains or other.domains[domain][1] < last[1]
        }
        return MariadbGtidPosition(ahead)

    def agrees_with(self, other: MariadbGtidPosition) -> bool:
        """Whether both may be of one history: the domains that they have in common stand alike.

        A domain can be deleted from a log; but one must be common, if this position has any.
        """
        common = self.domains.keys() & other.domains.keys()
        alike = all(self.domains[domain] == other.domains[domain] for domain in common)
        return alike and bool(common or not self.domains)

    def __str__(self) -> str:
        """Return the form that `@slave_connect_state` takes, domains in order."""
        return ",".join(
            f"{domain}-{server}-{sequence}"
            for domain, (server, sequence) in sorted(self.domains.items())
        )


def missing_gtids(flavor: Flavor, gtids: str, executed: str) -> str:
    """Return the part of some GTIDs that was not executed, in text; empty where there is none."""
    if flavor is Flavor.MYSQL:
        return str(GtidSet.parse(gtids).subtract(GtidSet.parse(executed)))
    return str(MariadbGtidPosition.parse(gtids).beyond(MariadbGtidPosition.parse(executed)))


def join_gtids(flavor: Flavor, gtids: str, others: str) -> str:
    """Return some GTIDs and others, in text; of a domain of MariaDB the newest transaction."""
    if flavor is Flavor.MYSQL:
        return str(GtidSet.parse(gtids).union(GtidSet.parse(others)))
    position = MariadbGtidPosition.parse(gtids)
    newer = MariadbGtidPosition.parse(others).beyond(position)
    return str(MariadbGtidPosition({**position.domains, **newer.domains}))


def count_missing(flavor: Flavor, gtids: str, executed: str) -> int:
    """Return how many transactions of some GTIDs were not executed.

    On MariaDB, whose GTIDs name the last transaction of a domain, numbers that were never logged
    count, too.
    """
    if flavor is Flavor.MYSQL:
        missing = GtidSet.parse(gtids).subtract(GtidSet.parse(executed))
        return sum(last - first + 1 for _, _, first, last in missing.intervals())
    known = MariadbGtidPosition.parse(executed).domains
    newest = MariadbGtidPosition.parse(gtids).domains.items()
    gained = (last - known.get(domain, (0, 0))[1] for domain, (_, last) in newest)
    return sum(count for count in gained if count > 0)
