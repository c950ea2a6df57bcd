"""Layout of a new lake table: clustering, partitions, sort order, by the options of its table.

An existing table keeps the layout that it was made with. If its options say another one by now, the
next merge reports that once: the property `LAYOUT` says which options were last seen.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.names import quote_identifier
from airflow_provider_binlog.table_options import LayoutTerm, TableOptions, read_term

LAYOUT = "binlog.layout"
"""Table property: the layout in the options of the table when it was made, or reported since."""


@dataclass(frozen=True)
class Layout:
    """How the rows of a table are laid out; each as `TableOptions` says."""

    cluster_by: Sequence[str] = ()
    partition_by: Sequence[str] = ()
    sort_by: Sequence[str] = ()

    @classmethod
    def of(cls, options: TableOptions) -> Layout:
        """Return the layout that options say."""
        return cls(options.cluster_by or (), options.partition_by or (), options.sort_by or ())

    @property
    def given(self) -> dict[str, list[str]]:
        """What is said, by the names of the options."""
        return {name: list(terms) for name, terms in vars(self).items() if terms}

    @property
    def properties(self) -> dict[str, str]:
        """The property of a new table, if there is anything to say."""
        return Note(self.given).property if self.given else {}

    def clause(self, columns: Collection[str]) -> str:
        """Return the clause of a CREATE TABLE with these columns; empty if there is none.

        Raises:
            ConfigurationError: It names columns that the table does not have, or two layouts.
        """
        if self.cluster_by and self.partition_by:
            raise ConfigurationError(
                "a table is clustered or partitioned, not both: two rules of options={...} apply "
                "to it",
                cluster_by=",".join(self.cluster_by),
                partition_by=",".join(self.partition_by),
            )
        for name, terms in self.given.items():
            used = (read_term(term, sorts=name == "sort_by").column for term in terms)
            if unknown := [column for column in used if column not in columns]:
                raise ConfigurationError(
                    "options={...} lay a table out by columns that it does not have",
                    option=name,
                    columns=",".join(unknown),
                )
        if self.cluster_by:
            return f" CLUSTER BY ({', '.join(map(quote_identifier, self.cluster_by))})"
        if self.partition_by:
            return f" PARTITIONED BY ({_terms(map(read_term, self.partition_by))})"
        return ""

    @property
    def order(self) -> str:
        """The sort order as SQL writes it; empty if there is none."""
        return _terms(read_term(term, sorts=True) for term in self.sort_by)

    def difference(self, note: Note) -> str:
        """Return how it differs from what was noted, for people; empty if it does not."""
        if note.layout == self.given:
            return ""
        return (
            f"the options now say {_words(self.given)}, and the lake table was made with "
            f"{_words(note.layout)}, which it keeps: alter it yourself, or drop it, and load it "
            "again"
        )


@dataclass(frozen=True)
class Note:
    """What a lake table says of the options of its table.

    Attributes:
        layout: The layout by the names of the options: that when it was made, or reported since.
        refused: Properties that it did not take.
    """

    layout: dict[str, list[str]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Note:
        """Return the note in the properties of a lake table."""
        return cls(**json.loads(properties.get(LAYOUT) or "{}"))

    @property
    def property(self) -> dict[str, str]:
        """The property that says it."""
        return {LAYOUT: json.dumps(asdict(self), ensure_ascii=False)}


def _terms(terms: Iterable[LayoutTerm]) -> str:
    return ", ".join(map(_term, terms))


def _term(term: LayoutTerm) -> str:
    column = quote_identifier(term.column)
    if term.transform:
        width = "" if term.width is None else f"{term.width}, "
        column = f"{term.transform}({width}{column})"
    return f"{column} {term.order}".strip()


def _words(given: Mapping[str, Iterable[str]]) -> str:
    texts = (f"{name}=({', '.join(terms)})" for name, terms in given.items())
    return ", ".join(texts) or "no layout"
