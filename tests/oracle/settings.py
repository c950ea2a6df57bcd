"""What a server can be set to that changes its log, and which combinations are run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from itertools import combinations, product

MIXED = "MIXED"
"""Every session chooses its own row image, so that one range holds all of them."""


@dataclass(frozen=True)
class Settings:
    """One combination.

    Attributes:
        server: Kind of server, as `tests.services` calls it.
        metadata: `binlog_row_metadata`.
        image: `binlog_row_image`, or `MIXED`.
        compression: `binlog_transaction_compression`, on MariaDB `log_bin_compress`.
        partial_json: `binlog_row_value_options`; MariaDB has none.
    """

    server: str
    metadata: str
    image: str
    compression: bool
    partial_json: bool

    def __str__(self) -> str:
        """Return a name for the run."""
        marks = ["zip"] * self.compression + ["partial"] * self.partial_json
        return "-".join([self.server, self.metadata, self.image, *marks])

    @property
    def is_mysql(self) -> bool:
        """Whether the server is MySQL."""
        return self.server.startswith("mysql")

    @property
    def logs_schemas(self) -> bool:
        """Whether the log says all of a table, so that none may be refused.

        Whatever it is set to, MariaDB logs UUID, INET and VECTOR as other types: information_schema
        says more, unless a statement of the range names the table later.
        """
        return self.metadata == "FULL" and self.is_mysql


IMAGES = ("FULL", "MINIMAL", "NOBLOB", MIXED)


def every(server: str) -> list[Settings]:
    """Return all combinations for a kind of server."""
    is_mysql = server.startswith("mysql")
    metadata = ("MINIMAL", "FULL") if is_mysql else ("NO_LOG", "MINIMAL", "FULL")
    switches = (False, True)
    return [
        Settings(server, *values)
        for values in product(metadata, IMAGES, switches, switches if is_mysql else (False,))
    ]


def covering(servers: Iterable[str]) -> list[Settings]:
    """Return few combinations in which every pair of values of two settings meets."""
    left = [each for server in servers for each in every(server)]
    unmet = set().union(*map(_pairs, left))
    chosen = []
    while unmet:
        best = max(left, key=lambda each: len(_pairs(each) & unmet))
        unmet -= _pairs(best)
        left.remove(best)
        chosen.append(best)
    return chosen


def _pairs(settings: Settings) -> set[tuple[tuple[str, object], ...]]:
    names = [field.name for field in fields(Settings)]
    return set(combinations(zip(names, astuple(settings), strict=True), 2))
