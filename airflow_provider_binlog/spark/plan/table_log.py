"""A range of manifests: its actions and parts by table id and by name, indexed once; its globs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from airflow_provider_binlog.errors import ManifestError
from airflow_provider_binlog.manifest import Manifest, Statement, TableChanges, check_follows
from airflow_provider_binlog.names import matches_globs
from airflow_provider_binlog.schema import (
    Action,
    CreateTable,
    DropTable,
    QuarantineTable,
    RenameTable,
    TableId,
    TableName,
    TruncateTable,
    ends_by_reload,
)
from airflow_provider_binlog.spark.target.state import Mark
from airflow_provider_binlog.staging.paths import maybe_part_sequence

Point: TypeAlias = tuple[int, int]
"""(sequence of the manifest, `_row`): orders the rows and the actions of a source. An action
applies before the first row whose point is not less than its own."""


@dataclass(frozen=True)
class LogAction:
    """One action of the log.

    Attributes:
        point: Where it is among the rows.
        mark: That of a lake table which contains all rows before it.
    """

    point: Point
    mark: Mark
    action: Action
    statement: Statement

    @property
    def position(self) -> str:
        """Start of the statement, for messages."""
        return f"{self.statement.file}:{self.statement.offset}"


_TEXT_MAX = 200


@dataclass(frozen=True)
class Stop:
    """The lake table keeps the rows from before this: it cannot follow what comes here.

    Attributes:
        mark: That of a lake table which contains everything before it.
        point: Rows from here on are after it.
        statement: The statement; empty where there is none.
    """

    mark: Mark
    point: Point
    position: str
    reason: str
    statement: str = ""

    @classmethod
    def at_step(cls, step: LogAction, reason: str) -> Stop:
        """Return the stop at an action."""
        return cls(step.mark, step.point, step.position, reason, step.statement.text[:_TEXT_MAX])

    @classmethod
    def at_manifest(cls, manifest: Manifest, reason: str, mark: Mark | None = None) -> Stop:
        """Return the stop before a manifest; `mark` is that of what is before it."""
        before = mark or Mark(manifest.sequence - 1)
        return cls(before, (manifest.sequence, 0), str(manifest.start), reason)

    @property
    def explanation(self) -> str:
        """The reason and its repair, for people."""
        ran = f" ({self.statement})" if self.statement else ""
        repair = ": reload the table" if ends_by_reload(self.reason) else ""
        return f"{self.reason}{ran}{repair}"


@dataclass(frozen=True)
class Holding:
    """From a point on a name stands for a table, or for none.

    Attributes:
        table: The table id; None for none.
        step: What made it so; None where it was so when the manifest started.
    """

    table: TableId | None
    sequence: int
    step: LogAction | None


@dataclass(frozen=True)
class Span:
    """A name stands for a table from one point to another; None for the end of the range."""

    table: TableId
    start: Point
    stop: Point | None = None


class TableLog:
    """Actions and parts of a range of manifests, in order, by table id and by name."""

    def __init__(self, manifests: Sequence[Manifest]) -> None:
        self.manifests = tuple(manifests)
        self._entries: dict[TableId, list[tuple[Manifest, TableChanges]]] = defaultdict(list)
        self._steps: dict[TableId, list[LogAction]] = defaultdict(list)
        self._holdings: dict[TableName, list[Holding]] = defaultdict(list)
        self._globs = extend_globs((), self.manifests)
        for manifest in manifests:
            self._read(manifest)

    @property
    def first(self) -> int:
        """Number of the first manifest."""
        return self.manifests[0].sequence

    @property
    def last(self) -> int:
        """Number of the last manifest."""
        return self.manifests[-1].sequence

    def manifest(self, sequence: int) -> Manifest:
        """Return the manifest of this number."""
        return self.manifests[sequence - self.first]

    def before(self, step: LogAction) -> TableLog:
        """Return the log before the statement of an action; no schema is said of its manifest."""
        sequence = step.mark.sequence + 1
        whole = [manifest for manifest in self.manifests if manifest.sequence < sequence]
        return TableLog([*whole, _before(self.manifest(sequence), step.mark.statements)])

    def point(self, mark: Mark) -> Point:
        """Return where the rows and actions start that a lake table with this mark lacks."""
        sequence = mark.sequence + 1
        if not mark.statements:
            return sequence, 0
        return sequence, self.manifest(sequence).statements[mark.statements - 1].row

    def names(self) -> list[TableName]:
        """Return every name that stands for a table, or stood for one."""
        return sorted(self._holdings)

    def find_id(self, name: TableName) -> TableId | None:
        """Return the table that a name stands for at the end; None for none, or if unknown."""
        holdings = self._holdings.get(name)
        return holdings[-1].table if holdings else None

    def holdings(self, name: TableName, *, since: int = 0) -> list[Holding]:
        """Return what a name stands for, in order, as far as the manifests from `since` on say."""
        return [holding for holding in self._holdings.get(name, ()) if holding.sequence >= since]

    def tables(self, name: TableName) -> set[TableId]:
        """Return the tables that a name stands for, or stood for."""
        holdings = self._holdings.get(name, ())
        steps = (holding.step for holding in holdings)
        held = {holding.table for holding in holdings if holding.table is not None}
        return held | {step.action.table for step in steps if step is not None}

    def entries(self, table: TableId, *, since: int) -> list[tuple[Manifest, TableChanges]]:
        """Return what the manifests from `since` on say of a table."""
        return [entry for entry in self._entries.get(table, ()) if entry[0].sequence >= since]

    def spans(self, name: TableName, *, since: int) -> list[Span]:
        """Return for which tables a name stands, as far as the manifests from `since` on say."""
        spans: list[Span] = []
        table, start = None, (since, 0)
        for holding in self.holdings(name, since=since):
            step = holding.step
            point = (holding.sequence, 0) if step is None else step.point
            if table is None and step is not None and holding.table is None:
                # It stood for this one before.
                table = step.action.table
            if holding.table == table:
                continue
            if table is not None:
                spans.append(Span(table, start, point))
            table, start = holding.table, point
        return [*spans, Span(table, start)] if table is not None else spans

    def steps(self, table: TableId, *, since: Mark) -> list[LogAction]:
        """Return the actions on a table that a lake table with a mark lacks."""
        return [step for step in self._steps.get(table, ()) if step.mark >= since]

    def created(self, table: TableId) -> int | None:
        """Return from which manifest on the log holds every row of a table; None if from none."""
        entries = self._entries.get(table, ())
        return entries[-1][1].created if entries else None

    def find_restart(self, table: TableId | None) -> int | None:
        """Return the last manifest from which on the log has every row of a table.

        It was created or truncated there. None if the manifests show no such action.
        """
        for step in reversed(self._steps.get(table or "", [])):
            if isinstance(step.action, CreateTable | TruncateTable):
                return step.point[0]
        return None

    def has_beginning(self, name: TableName) -> bool:
        """Whether the log has every row of a name's table."""
        id_ = self.find_id(name)
        return id_ is None or self.created(id_) is not None or self.find_restart(id_) is not None

    def is_quarantined(self, name: TableName, *, since: int) -> bool:
        """Whether the table of a name is quarantined in a manifest from `since` on."""
        return any(
            isinstance(step.action, QuarantineTable) and step.point[0] >= since
            for step in self._steps.get(self.find_id(name) or "", ())
        )

    def find_uncaptured_name(self, table: TableId, *, since: int) -> TableName | None:
        """Return a name of a table that some manifest was captured without; None if none was."""
        names = {entry.name for _, entry in self.entries(table, since=since)}
        for step in self._steps.get(table, ()):
            if step.point[0] >= since and isinstance(step.action, RenameTable):
                names |= {step.action.old, step.action.new}
        for name in sorted(names):
            if find_uncaptured(self._globs, name, first=since, last=self.last) is not None:
                return name
        return None

    def _read(self, manifest: Manifest) -> None:
        sequence = manifest.sequence
        named = set()
        for number, statement in enumerate(manifest.statements, 1):
            for action in statement.actions:
                mark = Mark(sequence - 1, number)
                step = LogAction((sequence, statement.row), mark, action, statement)
                self._steps[action.table].append(step)
                for name, table in _names_of(action):
                    self._holdings[name].append(Holding(table, sequence, step))
                    named.add(name)
        for entry in manifest.tables:
            self._entries[entry.id].append((manifest, entry))
            name = entry.database, entry.table
            if name not in named:
                self._holdings[name].append(Holding(entry.id, sequence, None))


def _before(manifest: Manifest, number: int) -> Manifest:
    """Return a manifest before its statement of a number, from 1."""
    ended = manifest.statements[: number - 1]
    later = [
        statement for statement in manifest.statements[number - 1 :] if not _quarantines(statement)
    ]
    row, names = later[0].row, {entry.id: entry.name for entry in manifest.tables}
    actions = (action for statement in reversed(later) for action in reversed(statement.actions))
    for action in actions:
        if isinstance(action, CreateTable):
            names.pop(action.table, None)
        elif isinstance(action, RenameTable | DropTable) and action.table in names:
            names[action.table] = action.old if isinstance(action, RenameTable) else action.name
    tables = tuple(
        replace(
            entry,
            database=names[entry.id][0],
            table=names[entry.id][1],
            dropped=False,
            current=None,
            parts=tuple(part for part in entry.parts if part.first_row < row),
        )
        for entry in manifest.tables
        if entry.id in names
    )
    # The rows of the whole manifest are missing.
    quarantines = filter(_quarantines, manifest.statements[number - 1 :])
    return replace(manifest, statements=(*ended, *quarantines), tables=tables)


def _quarantines(statement: Statement) -> bool:
    return any(isinstance(action, QuarantineTable) for action in statement.actions)


def _names_of(action: Action) -> list[tuple[TableName, TableId | None]]:
    """Return the names that stand for a table, or for none, after an action."""
    if isinstance(action, CreateTable):
        return [(action.name, action.table)]
    if isinstance(action, DropTable):
        return [(action.name, None)]
    if isinstance(action, RenameTable):
        return [(action.old, None), (action.new, action.table)]
    return []


class Globs(NamedTuple):
    """Globs of the tables that manifests were captured with, from manifest `since` on."""

    since: int
    include: tuple[str, ...]
    exclude: tuple[str, ...]

    def capture(self, name: TableName) -> bool:
        """Return whether a table is among them."""
        return matches_globs(".".join(name), self.include, self.exclude)


def extend_globs(known: Iterable[Globs], manifests: Iterable[Manifest]) -> tuple[Globs, ...]:
    """Return what manifests were captured with, and those that follow them."""
    spans = list(known)
    for manifest in manifests:
        globs = Globs(manifest.captured_since, manifest.include, manifest.exclude)
        if not spans:
            spans.append(globs)
        elif (spans[-1].include, spans[-1].exclude) != (manifest.include, manifest.exclude):
            spans.append(globs._replace(since=manifest.sequence))
    return tuple(spans)


def find_uncaptured(
    globs: Sequence[Globs], name: TableName, *, first: int, last: int
) -> int | None:
    """Return where a table was last left out of a range of manifests; None if it never was.

    That is the first manifest of those that were captured with the last globs that leave it out.
    """
    for period in reversed(globs):
        since = max(period.since, first)
        if since <= last and not period.capture(name):
            return since
        last = min(last, period.since - 1)
    return None


def check_contiguous(manifests: Sequence[Manifest]) -> None:
    """Refuse manifests between which changes would be missing, doubled or foreign.

    Raises:
        ManifestError: Of two neighbours the second does not follow the first, or a part of one of
            them is named by another number.
    """
    for previous, following in pairwise(manifests):
        check_follows(previous.end, following)
    for manifest in manifests:
        for table in manifest.tables:
            for part in table.parts:
                # Rows of many parts are read in one scan, which learns the sequence from the name.
                if maybe_part_sequence(part.path) != manifest.sequence:
                    raise ManifestError(
                        "a part is not named by its manifest",
                        part=part.path,
                        sequence=manifest.sequence,
                    )
