"""What has to be known of a range before its rows are decoded, and is only found while reading it.

A rollback may take back changes of earlier blocks. A range is first read as if none of that
mattered. Where it does, the range is read to its end for its facts, and then once more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable


Result = TypeVar("Result")


@dataclass(frozen=True)
class RangeFacts:
    """What the first reading of a range found out.

    Attributes:
        rolled_back: Row numbers of what was rolled back: pairs of start and stop, in order.
    """

    rolled_back: tuple[tuple[int, int], ...] = ()


class RestartRange(Exception):  # noqa: N818  not an error
    """A range must be read again, given what is known of it now."""

    def __init__(self, facts: RangeFacts) -> None:
        super().__init__(facts)
        self.facts = facts


NO_FACTS = RangeFacts()
"""Of a range that was not read yet."""


def read_with_facts(read: Callable[[RangeFacts], Result], facts: RangeFacts = NO_FACTS) -> Result:
    """Return what reading a range results in, read again where its facts were needed earlier."""
    while True:
        try:
            return read(facts)
        except RestartRange as restart:
            facts = restart.facts
