"""Changes that a lake table cannot follow: the merge ends before them, and the table is stale."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from airflow_provider_binlog.names import fold_name
from airflow_provider_binlog.schema import (
    Action,
    AddField,
    AlterField,
    CreateTable,
    Default,
    DropField,
    Field,
    QuarantineTable,
    RewriteRows,
    Schema,
    SetKey,
    UnknownDefault,
)
from airflow_provider_binlog.spark.plan.evolution import match_columns
from airflow_provider_binlog.spark.plan.fold import Fold
from airflow_provider_binlog.spark.plan.table_log import LogAction, Stop
from airflow_provider_binlog.spark.staged.parts import StagedPart
from airflow_provider_binlog.spark.staged.types import common_type, is_zero_date, spark_type

BEFORE_RELOAD = "before the reload"
"""End of the reason of a stop that names its repair."""


class StopSearch:
    """Search a fold for what its lake table cannot follow."""

    def __init__(self, fold: Fold) -> None:
        tables = fold.tables
        self.fold, self.log, self.state = fold, tables.log, tables.state
        self.chosen_key, self.keyed = tables.chosen_key, tables.keyed
        self.keeps_rows, self.mode = tables.keeps_rows, tables.mode
        # Names of the lake table's columns by field id; of those that count.
        self.columns = dict[int, str]()
        if self.state is not None:
            ids = {} if tables.by_name else self.state.fields
            self.columns = match_columns(fold.fields, tables.columns, ids)

    @property
    def in_lake(self) -> bool:
        """Whether the lake table has rows that count."""
        return self.state is not None and not self.state.is_empty and not self.fold.discards

    def find_first(self) -> Stop | None:
        """Return the first action that cannot be followed; None if all can."""
        searches = (
            self._quarantines,
            self._kinds,
            self._keys,
            self._changed_keys,
            self._kept_key,
            self._rewrites,
            self._defaults,
            self._types,
            self._lost_columns,
        )
        stops = [stop for search in searches for stop in search()]
        first = min(stops, key=lambda stop: stop.mark, default=None)
        lost_key = next(self._kinds(), None)
        if first is None or lost_key is None or first.reason == lost_key.reason:
            return first
        # The reload is of the table as it is then.
        return replace(first, reason=f"{first.reason}; later {lost_key.reason}")

    def _quarantines(self) -> Iterator[Stop]:
        """The rows of a whole manifest are missing."""
        for step in self.fold.steps:
            if isinstance(step.action, QuarantineTable):
                manifest = self.log.manifest(step.point[0])
                reason = f"the table was quarantined: {step.action.reason}"
                yield Stop.at_manifest(manifest, reason)

    def _kinds(self) -> Iterator[Stop]:
        """A lake table has a key, or it is a changelog: rows of the other kind do not fit."""
        for part in self.fold.staged:
            if self.chosen_key or bool(part.schema.key) == self.mode.has_key:
                continue
            reason = (
                "the table's primary key was dropped, and the lake table's rows are known by it "
                "(choose a key with options={...}, or drop the lake table, before the reload)"
                if self.mode.has_key
                else f"the table got a primary key, and the lake table is a {self.mode.kind}"
            )
            yield self._at_last(
                lambda action: isinstance(action, SetKey | CreateTable), part, reason
            )
            return

    def _keys(self) -> Iterator[Stop]:
        """Rows are identified by a value that stands for another one."""
        for part in self.fold.staged if self.keyed else ():
            key = self.chosen_key or part.schema.key_names
            column = next((name for name in key if part.part.replaced.get(name)), None)
            if column is not None:
                reason = (
                    f"{part.part.replaced[column]} values in the key column {column} are zero "
                    "dates or invalid byte sequences, which no lake type holds; correct them at "
                    "the source, or stage them with zero_dates='text' or invalid_text='binary', or "
                    f"name another key with options={{...}} (part {part.part.path})"
                )
                yield Stop.at_manifest(part.manifest, reason)
                return

    def _changed_keys(self) -> Iterator[Stop]:
        """The rows from before are known by another key."""
        for step in self.fold.steps if self.keyed else ():
            action, key = step.action, self._key_before(step)
            has_rows = self.in_lake or self._has_rows_before(step)
            is_other = isinstance(action, SetKey) and {*action.key} not in (set(), {*key})
            if isinstance(action, DropField) and action.field in key:
                # By what rows are identified then is not known.
                if has_rows or self.log.created(action.table) is None:
                    reason = f"the column {action.name} of the lake table's key was dropped"
                    yield Stop.at_step(step, reason)
            elif is_other and key and has_rows and not self.chosen_key:
                yield Stop.at_step(step, "the table's primary key changed")

    def _kept_key(self) -> Iterator[Stop]:
        """Removed rows that the lake table keeps are known by another key than the table has."""
        fold, state = self.fold, self.state
        if state is None or not (self.keeps_rows and fold.discards and fold.key):
            return
        names = {name: id_ for id_, name in self.columns.items()}
        known = {column.id: column.name for column in fold.fields}
        kept = {known.get(names.get(name, 0), name) for name in state.key}
        if kept == {*fold.key}:
            return
        reason = (
            f"the table's key is ({', '.join(fold.key)}), and the lake table keeps removed rows "
            f"that are known by ({', '.join(state.key)}): drop the lake table, {BEFORE_RELOAD}"
        )
        first = self.log.manifest(max(fold.tables.lifecycle.first, self.log.first))
        yield Stop.at_manifest(first, reason, fold.tables.since)

    def _key_before(self, step: LogAction) -> tuple[int, ...]:
        """Return the fields of the key by which rows before an action are identified."""
        key = self.fold.tables.held_key
        for manifest, entry in self.log.entries(step.action.table, since=self.log.first):
            if entry.current is None or entry.is_partial or manifest.sequence >= step.point[0]:
                continue
            key = self._key_of(entry.schema(entry.current)) or key
        for part in self.fold.staged:
            key = (self._key_of(part.schema) or key) if part.first < step.point else key
        return key

    def _key_of(self, schema: Schema) -> tuple[int, ...]:
        if self.chosen_key is None:
            return schema.key
        return tuple(field.id for field in schema.fields if field.name in self.chosen_key)

    def _rewrites(self) -> Iterator[Stop]:
        for step in self.fold.steps:
            action = step.action
            if not isinstance(action, RewriteRows):
                continue
            had_rows = self.in_lake or self._has_rows_before(step)
            if action.field is None:
                # Rows may have come as well, unless the log has all of them.
                concerned = had_rows or self.log.created(action.table) is None
            else:
                # A changelog keeps the values that were logged.
                fields = self.fold.fields
                # It may be any column that the log has not named yet, and has no id of.
                unnamed = any(field.id < 0 for field in fields) and not self._drops(action.field)
                kept = self.fold.wanted is None or unnamed
                kept = kept or any(field.id == action.field for field in fields)
                concerned = had_rows and kept and self.keyed
            if concerned:
                # What the options change has no statement.
                subject = "" if action.reason.startswith("the options ") else "the statement "
                reason = f"rows changed without row events, because {subject}{action.reason}"
                yield Stop.at_step(step, reason)

    def _defaults(self) -> Iterator[Stop]:
        """A column was added whose value in older rows the log does not say."""
        for field in self.fold.fields if self.keyed else ():
            unknown = _unknown_initial(field)
            if unknown is None or not self._has_rows_without(field):
                continue

            def adds(action: Action, id_: int = field.id) -> bool:
                return isinstance(action, AddField) and action.field == id_

            first = next((part for part in self.fold.staged if _has(part, field.id)), None)
            reason = (
                f"the value that older rows have in the new column {field.name} is not known: "
                f"{unknown}"
            )
            if first is not None or any(adds(step.action) for step in self.fold.steps):
                yield self._at_last(adds, first, reason)

    def _types(self) -> Iterator[Stop]:
        """A column has a type now that no lake type has in common with the one from before."""
        for wanted in self.fold.wanted or ():
            name = self.columns.get(wanted.id)
            counts = name is not None and (self.in_lake or self.keeps_rows)
            held = self.state.columns[name] if self.state and name and counts else None
            for part in self.fold.staged:
                field = self._find(part, wanted)
                if field is None:
                    continue
                now = spark_type(str(field.arrow_type))
                both = now if held is None else common_type(held, now)
                if both is None:
                    reason = f"the column {wanted.name} was {held} in the lake, and is {now} now"
                    if self.keeps_rows:
                        reason += (
                            ", and the lake table keeps removed rows: drop the column of the lake "
                            f"table, or the lake table, {BEFORE_RELOAD}"
                        )
                    yield self._at_last(_retypes(field.id), part, reason)
                    break
                held = both

    def _lost_columns(self) -> Iterator[Stop]:
        """Somebody dropped a column of the lake table: its values are lost."""
        state = self.state
        if state is None or not self.in_lake:
            return
        for wanted in self.fold.wanted or ():
            if wanted.id in state.lost:
                reason = f"the lake table lost the values of column {wanted.name}: it was dropped"
                manifest = self.log.manifest(state.applied.sequence + 1)
                yield Stop.at_manifest(manifest, reason, state.applied)
                return

    def _find(self, part: StagedPart, field: Field) -> Field | None:
        """Return the field of a part that is in the same column of the lake table."""
        for held in part.schema.fields:
            same = (
                held.id == field.id if self.keyed else fold_name(held.name) == fold_name(field.name)
            )
            if same:
                return held
        return None

    def _drops(self, field: int) -> bool:
        actions = (step.action for step in self.fold.steps)
        return any(isinstance(action, DropField) and action.field == field for action in actions)

    def _has_rows_before(self, step: LogAction) -> bool:
        return any(part.first < step.point for part in self.fold.staged)

    def _has_rows_without(self, field: Field) -> bool:
        if self.in_lake and field.id not in self.columns:
            return True
        return any(not _has(part, field.id) for part in self.fold.staged)

    def _at_last(
        self, matches: Callable[[Action], bool], part: StagedPart | None, reason: str
    ) -> Stop:
        """Return the stop at the last such action before a part, or else before its manifest."""
        steps = [
            step
            for step in self.fold.steps
            if matches(step.action) and (part is None or step.point <= part.first)
        ]
        if steps or part is None:
            return Stop.at_step(steps[-1], reason)
        return Stop.at_manifest(part.manifest, reason)


def _retypes(field: int) -> Callable[[Action], bool]:
    return lambda action: (
        isinstance(action, CreateTable)
        or (isinstance(action, AlterField | AddField) and action.field == field)
    )


def _has(part: StagedPart, field: int) -> bool:
    return any(held.id == field for held in part.schema.fields)


def _unknown_initial(field: Field) -> str | None:
    """Return why the value in older rows is not known; None if it is, or if there are none."""
    initial = field.initial_default
    if isinstance(initial, UnknownDefault):
        return initial.reason
    if isinstance(initial, Default) and field.arrow_type and is_zero_date(field, initial):
        return "no value of the lake stands for a zero date"
    return None
