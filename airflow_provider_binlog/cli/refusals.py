"""What capture would refuse of a log: each reason once, with its first position and how often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_binlog.errors import BinlogError


@dataclass
class _Refusal:
    """What would be refused, and how often for the same reason."""

    text: str
    count: int = 0


class Refusals:
    """Collects errors; those of one reason about one column of one table count as the same.

    Attributes:
        file: What is read now: where an error happened whose context does not say it.
    """

    def __init__(self) -> None:
        self.file = ""
        self._found: dict[tuple[object, ...], _Refusal] = {}

    @property
    def count(self) -> int:
        """How often anything was refused."""
        return sum(each.count for each in self._found.values())

    def add(self, error: BinlogError, *, times: int = 1) -> None:
        """Take note of an error; a `Refuse`."""
        context = {
            key: value
            for key, value in error.context.items()
            if key != "log_pos" and value is not None
        }
        where = context.pop("file", self.file), context.pop("offset", None)
        key = (error.args[0], context.get("table"), context.get("column"))
        known = self._found.get(key)
        if known is None:
            location = str(where[0]) if where[1] is None else f"{where[0]}:{where[1]}"
            known = _Refusal(f"{location}  {type(error)(error.args[0], **context)}")
            self._found[key] = known
        known.count += times

    def lines(self) -> Iterator[str]:
        """Yield a line for each reason, in the order in which they were met."""
        for refusal in self._found.values():
            often = f"  ({refusal.count} times)" if refusal.count > 1 else ""
            yield f"  {refusal.text}{often}"
