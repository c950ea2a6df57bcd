"""What a merge has to do to one table: decided from manifests alone, before Spark reads a row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_binlog.changes import BeforeImages, ChangeType
from airflow_provider_binlog.errors import ConfigurationError, MergeError
from airflow_provider_binlog.spark.plan.remade_columns import read_remade_columns
from airflow_provider_binlog.spark.plan.renames import History, Stretch, maybe_history, read_history
from airflow_provider_binlog.spark.plan.statements import (
    Erasure,
    TableFate,
    TableName,
    fills_rows,
    read_fate,
    refuse_unseen_changes,
    statements_of,
)
from airflow_provider_binlog.spark.staged.shapes import (
    CHANGELOG_COLUMNS,
    StagedPart,
    StagedShape,
    newest_schema,
    parts_within,
    read_columns,
    read_shape,
)
from airflow_provider_binlog.spark.staged.types import spark_type, widens

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow_provider_binlog.manifest import (
        Column,
        Manifest,
        Part,
        Schema,
        Statement,
        TableChanges,
    )


@dataclass(frozen=True)
class TablePlan:
    """What a merge has to do to one table.

    Attributes:
        name: Database and table.
        through: Number of the last manifest the plan covers: the marker after the merge.
        columns: Name and Spark type of each column at the range's end; empty where no rows are left
            to read.
        key: Names of the columns that identify a row; empty for a changelog.
        shapes: What is to be read.
        parts: The parts of all shapes.
        exact: Whether every row of the parts counts: none lies before `fate.emptied_at`, or was
            logged when another table had the name.
        null_safe: Whether a key column may be NULL, in any of the shapes.
        fate: What the statements of the range do to the table.
        doubtful: Columns that would not be NULL in rows from before they were added.
        position: Where in the log the table's newest shape begins, for messages.
    """

    name: TableName
    through: int
    columns: dict[str, str]
    key: tuple[str, ...]
    shapes: tuple[StagedShape, ...]
    parts: tuple[Part, ...]
    exact: bool
    null_safe: bool
    fate: TableFate
    doubtful: frozenset[str]
    position: str

    @property
    def table(self) -> str:
        """`database.table`, for messages."""
        return ".".join(self.name)

    @property
    def rows(self) -> int:
        """Change rows in the parts."""
        return sum(part.rows for part in self.parts)

    @property
    def changes(self) -> dict[str, int]:
        """Change rows in the parts, by type."""
        total: dict[str, int] = {}
        for part in self.parts:
            for change, count in part.changes.items():
                total[change] = total.get(change, 0) + count
        return total

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The columns that rows may have no value in, those together that no row tells apart.

        Empty if every row of the range is whole; also for a changelog, which keeps them as they
        are.
        """
        groups: dict[object, list[str]] = {}
        for column in self.columns if self.key else ():
            if column in self.key:
                # Checked when it is read.
                continue
            given = tuple(shape.gives(column) for shape in self.shapes)
            if any(images for images, _ in given):
                groups.setdefault(given, []).append(column)
        return tuple(map(tuple, groups.values()))

    @property
    def has_before_images(self) -> bool:
        """Whether the parts hold before-images of updates."""
        return ChangeType.UPDATE_PREIMAGE.value in self.changes

    @property
    def is_changelog(self) -> bool:
        """Whether changes are appended, for want of a key to merge by."""
        return not self.key

    @property
    def target_columns(self) -> dict[str, str]:
        """Name and Spark type of the target's columns."""
        return self.columns | (CHANGELOG_COLUMNS if self.is_changelog else {})

    @property
    def needs_commit(self) -> bool:
        """Whether the target changes: an ALTER alone waits for rows of the new shape."""
        emptied = self.fate.erasures or self.fate.emptied_at is not None
        return bool(self.shapes or emptied)


def plan_table(
    name: TableName,
    manifests: Sequence[Manifest],
    *,
    keys: Mapping[TableName, tuple[str, ...]],
    dropped_before: bool,
    earlier: Sequence[Manifest] = (),
    in_lake: bool = True,
) -> TablePlan:
    """Plan the merge of one table over manifests that follow its marker.

    Args:
        name: Database and table.
        manifests: Those that follow its marker.
        keys: Key columns by table, where the user chose them.
        dropped_before: Whether the table was dropped before them and not made again.
        earlier: Manifests directly before them, to find the rows of a renamed table in.
        in_lake: Whether the lake has the table.

    Raises:
        MergeError: The range holds a change of the table that the merge does not follow.
        ConfigurationError: The chosen key columns cannot serve.
    """
    fate, stretches = _follow(
        name, manifests, earlier, dropped_before=dropped_before, in_lake=in_lake
    )
    if len(stretches) > 1:
        manifests = [*earlier, *manifests]
    for stretch in stretches:
        since = stretch.since or (fate.emptied_at if len(stretches) == 1 else None)
        refuse_unseen_changes(stretch.name, manifests, since=since, before=stretch.before)
    is_changelog = _maybe_keys(name, manifests, stretches, keys) == ()
    if is_changelog and any(each.since or each.before for each in stretches):
        raise MergeError(
            "a table without a primary key was renamed: leave it out with --tables, or name its "
            "key with --keys",
            table=".".join(name),
            position=_position_of(fate, manifests, None),
        )
    if len(stretches) == 1 and not is_changelog:
        # A changelog keeps what happened before its table was emptied.
        stretches = (replace(stretches[0], since=fate.emptied_at),)
    staged = parts_within(manifests, stretches)
    shapes: dict[tuple[Schema, Stretch], list[StagedPart]] = {}
    for each in staged:
        _check_key_choice(name, each.manifest, each.table, keys)
        shapes.setdefault((each.schema, each.stretch), []).append(each)
    last = newest_schema(staged)
    key = keys.get(name, last.key) if last else ()
    position = _position_of(fate, manifests, last)
    # A changelog row shows what was logged: a column it did not have yet is absent.
    doubtful = frozenset() if is_changelog or not last else _doubtful(last, fate)
    if last:
        _check_shapes(
            [schema for schema, _ in shapes],
            last,
            doubtful=doubtful,
            same_key=name not in keys,
            context={"table": ".".join(name), "position": position},
        )
    if last and not is_changelog:
        _refuse_remade(name, staged, stretches, manifests)
    return TablePlan(
        name=name,
        through=manifests[-1].sequence,
        columns=read_columns(name, last) if last else {},
        key=key,
        shapes=tuple(
            read_shape(name, key, schema, stretch, parts)
            for (schema, stretch), parts in shapes.items()
        ),
        parts=tuple(each.part for each in staged),
        exact=all(each.stretch.is_whole(each.first, each.last) for each in staged),
        null_safe=any(
            each.nullable for schema, _ in shapes for each in schema.columns if each.name in key
        ),
        fate=fate,
        doubtful=doubtful,
        position=position,
    )


def doubt_additions(plan: TablePlan, late: Sequence[Statement]) -> TablePlan:
    """Return the plan, in doubt of new columns if a late statement may have filled them.

    Args:
        plan: What there is to do.
        late: The ALTER TABLEs between the last row that the lake has and the plan's range.
    """
    filling = fills_rows(late)
    if filling is None:
        return plan
    position = f"{filling.file}:{filling.offset}"
    return replace(plan, doubtful=frozenset(plan.columns), position=position)


def _follow(
    name: TableName,
    manifests: Sequence[Manifest],
    earlier: Sequence[Manifest],
    *,
    dropped_before: bool,
    in_lake: bool,
) -> tuple[TableFate, tuple[Stretch, ...]]:
    """Return what became of a table, and under which names its rows were logged.

    Nothing was logged, as it were, for a table that is renamed in the range and not there at its
    end: the lake keeps what it has of it.
    """
    fate = read_fate(name, manifests, dropped_before=dropped_before)
    history = maybe_history(name, manifests)
    if history is None:
        return fate, (Stretch(name, None, None),)
    if history.gone:
        statement = history.renamed
        place = next(place for place, each in statements_of(name, manifests) if each is statement)
        erasure = Erasure(place, statement.kind, statement.file, statement.offset)
        return TableFate(None, dropped=True, erasures=(erasure,), alterations=()), ()
    if fate.dropped and not history.came_from_elsewhere:
        return replace(fate, emptied_at=None), ()
    if history.came_from_elsewhere and not history.complete:
        history = maybe_history(name, [*earlier, *manifests]) or history
    if history.complete:
        return read_history(history, [*earlier, *manifests]), history.stretches
    if not history.came_from_elsewhere:
        return fate, history.stretches
    newest = history.stretches[-1]
    if in_lake or parts_within(manifests, (newest,)):
        raise _unknown_rows(name, history)
    # The name of the table is another one now; that alone changes nothing in the lake.
    waiting = TableFate(None, dropped=False, erasures=(), alterations=(history.renamed,))
    return waiting, ()


def _unknown_rows(name: TableName, history: History) -> MergeError:
    first = history.stretches[0]
    before = ".".join(first.name if history.lost is None else history.lost)
    return MergeError(
        f"the table was called {before} before it was renamed, and not all rows from then are "
        "staged: load it anew; for the next time, capture the table of the other name as well, "
        "from the CREATE TABLE on (tables=['shop.*'])",
        table=".".join(name),
        position=f"{history.renamed.file}:{history.renamed.offset}",
        statement=history.renamed.text[:200],
    )


def _maybe_keys(
    name: TableName,
    manifests: Sequence[Manifest],
    stretches: Sequence[Stretch],
    keys: Mapping[TableName, tuple[str, ...]],
) -> tuple[str, ...] | None:
    """Return the key the table has at the range's end; None if there are no rows to tell it."""
    newest = newest_schema(parts_within(manifests, stretches))
    return keys.get(name, newest.key if newest else None)


def _check_key_choice(
    name: TableName,
    manifest: Manifest,
    table: TableChanges,
    keys: Mapping[TableName, tuple[str, ...]],
) -> None:
    """A key of the user's needs the before-image of every update that changes it."""
    chosen = keys.get(name)
    if chosen is None:
        return
    for schema in table.schemas:
        unknown = set(chosen) - {column.name for column in schema.columns}
        if unknown:
            raise ConfigurationError(
                "--keys names columns the table does not have",
                table=".".join(name),
                columns=",".join(sorted(unknown)),
            )
        other = schema.key and set(schema.key) != set(chosen)
        if other and manifest.before_images is not BeforeImages.ALL:
            raise ConfigurationError(
                "other key columns than the primary key need before_images='all'",
                table=".".join(name),
                primary_key=",".join(schema.key),
                sequence=manifest.sequence,
            )


def _doubtful(last: Schema, fate: TableFate) -> frozenset[str]:
    """Return the columns that would not be NULL in rows from before they were added."""
    filled = fills_rows(fate.alterations) is not None
    return frozenset(each.name for each in last.columns if filled or not each.nullable)


def _check_shapes(
    shapes: Iterable[Schema],
    last: Schema,
    *,
    doubtful: frozenset[str],
    same_key: bool,
    context: Mapping[str, str],
) -> None:
    """Refuse rows that cannot be read as rows of the last shape."""
    final = {column.name: column for column in last.columns}
    for shape in shapes:
        earlier = {column.name: column for column in shape.columns}
        lost = [column for column in earlier if column not in final]
        gained = [column for column in final if column not in earlier]
        if lost and gained:
            raise MergeError(
                "columns were renamed, or dropped and added, between changes of one merge: "
                "drop the lake table and load it anew",
                **context,
                dropped=",".join(lost),
                added=",".join(gained),
            )
        refuse_filled_columns([column for column in gained if column in doubtful], context)
        if same_key and shape.key != last.key:
            raise MergeError(
                "the primary key changed: drop the lake table and load it anew",
                **context,
                before=",".join(shape.key),
                now=",".join(last.key),
            )
        for column in earlier.keys() & final.keys():
            _check_widening(earlier[column], final[column], context)


def _refuse_remade(
    name: TableName,
    staged: Sequence[StagedPart],
    stretches: Sequence[Stretch],
    manifests: Sequence[Manifest],
) -> None:
    """Refuse rows with a column whose name became that of another column behind them."""
    altered = [
        (place, statement)
        for stretch in stretches
        for place, statement in statements_of(stretch.name, manifests)
        if statement.kind == "ALTER TABLE" and stretch.is_whole(place, place)
    ]
    # What stands behind rows of each shape, mostly the same of many parts.
    behind = {
        (each.schema, tuple(statement for place, statement in altered if place > each.begin))
        for each in (staged if altered else ())
    }
    for schema, statements in behind:
        remade = read_remade_columns(statements).names
        columns = [each.name for each in schema.columns if each.name.lower() in remade]
        if columns:
            last = statements[-1]
            position = f"{last.file}:{last.offset}"
            refuse_remade_columns(columns, {"table": ".".join(name), "position": position})


def refuse_remade_columns(columns: Sequence[str], context: Mapping[str, str]) -> None:
    """Refuse columns that are other ones than those whose values rows from before hold.

    Raises:
        MergeError: There are any.
    """
    if columns:
        raise MergeError(
            "a column was dropped and added again, or got the name of another one, and rows from "
            "before hold what it was: load the table anew",
            **context,
            column=",".join(columns),
        )


def refuse_filled_columns(columns: Sequence[str], context: Mapping[str, str]) -> None:
    """Refuse new columns that rows from before them do not hold as NULL.

    Raises:
        MergeError: There are any.
    """
    if columns:
        raise MergeError(
            "a new column has a value in rows that were there before it, and the log does not say "
            "which: add it to the lake table with that value, or load the table anew",
            **context,
            column=",".join(columns),
        )


def _check_widening(earlier: Column, later: Column, context: Mapping[str, str]) -> None:
    before, now = spark_type(earlier.arrow_type), spark_type(later.arrow_type)
    if before != now and not widens(before, now):
        raise MergeError(
            "a column's type changed in a way that the lake table cannot follow: "
            "drop the lake table and load it anew",
            **context,
            column=later.name,
            before=earlier.mysql_type,
            now=later.mysql_type,
        )


def _position_of(fate: TableFate, manifests: Sequence[Manifest], last: Schema | None) -> str:
    """Return where the shape of the rows was last changed, as far as the range tells."""
    if fate.alterations:
        statement = fate.alterations[-1]
        return f"{statement.file}:{statement.offset}"
    first = manifests[0]
    if last is not None:
        for manifest in manifests:
            for table in manifest.tables:
                if last in table.schemas:
                    first = manifest
                    return f"{first.start}..{first.stop}"
    return f"{first.start}..{manifests[-1].stop}"
