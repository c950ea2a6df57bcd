"""Make one manifest of the sub-ranges of a backlog, and commit it."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_binlog.capture.backlog.sub_range import find_result
from airflow_provider_binlog.changes import IMAGE
from airflow_provider_binlog.errors import ConflictError, ManifestError
from airflow_provider_binlog.schema import QuarantineTable
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.staging.part_writer import write_part
from airflow_provider_binlog.staging.paths import part_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_provider_binlog.capture.backlog.plan import BacklogPlan
    from airflow_provider_binlog.manifest import Manifest, Part, Statement, TableChanges
    from airflow_provider_binlog.schema import Schema, TableId
    from airflow_provider_binlog.staging.object_store import ObjectStore

_NAME_DIGITS = 12


def commit_backlog(plan: BacklogPlan, store: ObjectStore, *, created_by: str) -> Manifest:
    """Return the manifest of a backlog whose sub-ranges are all staged, committed.

    A retry returns the one that an earlier try committed.

    Raises:
        ManifestError: A sub-range is not staged, or starts with something else than the one before
            it left.
        ConflictError: Another run has staged this range, or a part of it.
    """
    log = ManifestLog(store, plan.source_name)
    found = log.reuse(plan.sequence, plan.identity, plan.start)
    if found is not None:
        if found.stop.coordinates != plan.stop.coordinates:
            raise ConflictError(
                "another run has staged a part of this backlog meanwhile: plan what follows again",
                sequence=plan.sequence,
                stop=found.stop,
            )
        return found
    staged = [_load(plan, number, store) for number in range(len(plan.sub_ranges))]
    _check_chain(plan, staged)
    manifest = _join(_renumber_images(staged, plan.source_name, store), created_by)
    log.commit(manifest)
    return manifest


def _load(plan: BacklogPlan, number: int, store: ObjectStore) -> Manifest:
    staged = find_result(plan, number, store)
    if staged is None:
        raise ManifestError(
            "a sub-range of the backlog is not staged: run its task again",
            number=number,
            start=plan.sub_ranges[number].start,
        )
    return staged


def _check_chain(plan: BacklogPlan, staged: Sequence[Manifest]) -> None:
    """Refuse a sub-range that started with something else than the one before it left.

    Which tables are quarantined the plan does not know.
    """
    lost: set[TableId] = set()
    for number, before in enumerate(staged[:-1], start=1):
        start = plan.sub_ranges[number]
        names = plan.names_at(number)
        lost |= {table for table, _ in _quarantines([before])}
        fits = (
            before.stop == start.start
            and before.prepared == start.prepared
            and all(
                names.get(table.name) == table.state
                for table in before.tables
                if not table.dropped and table.id not in lost and table.name in names
            )
        )
        if not fits:
            raise ManifestError(
                "a sub-range of the backlog ended otherwise than it was planned: the log, or the "
                "server's information_schema, is not what it was; plan the backlog again",
                number=number - 1,
                stop=before.stop,
            )


def _quarantines(staged: Iterable[Manifest]) -> list[tuple[TableId, Statement]]:
    return [
        (action.table, statement)
        for manifest in staged
        for statement in manifest.statements
        for action in statement.actions
        if isinstance(action, QuarantineTable)
    ]


def _join(staged: Sequence[Manifest], created_by: str) -> Manifest:
    """Return the manifest of consecutive sub-ranges."""
    entries: dict[TableId, list[TableChanges]] = {}
    for table in (table for manifest in staged for table in manifest.tables):
        entries.setdefault(table.id, []).append(table)
    quarantines: dict[TableId, Statement] = {}
    for table_id, statement in _quarantines(staged):
        quarantines.setdefault(table_id, statement)
    tables = [
        _join_quarantined(parts) if table_id in quarantines else _join_table(parts)
        for table_id, parts in entries.items()
    ]
    last = staged[-1]
    return replace(
        last,
        start=staged[0].start,
        tables=tuple(sorted(tables, key=lambda each: each.name)),
        statements=(
            *(
                statement
                for manifest in staged
                for statement in manifest.statements
                if not any(isinstance(action, QuarantineTable) for action in statement.actions)
            ),
            *quarantines.values(),
        ),
        dropped_databases=tuple(
            sorted({name for manifest in staged for name in manifest.dropped_databases})
        ),
        events=_sum(each.events for each in staged),
        skipped_events=_sum(each.skipped_events for each in staged),
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        created_by=created_by,
    )


def _join_quarantined(entries: Sequence[TableChanges]) -> TableChanges:
    """Return what consecutive sub-ranges say of a table of which one has not all rows."""
    without = [
        replace(entry, parts=(), images=(), unrepresentable={}, invalid_text={})
        for entry in entries
    ]
    return replace(_join_table(without), created=None)


def _join_table(entries: Sequence[TableChanges]) -> TableChanges:
    """Return what consecutive sub-ranges say of a table."""
    last = entries[-1]
    parts = sorted(
        (part for each in entries for part in each.parts), key=lambda part: part.first_row
    )
    needed = {part.schema for part in parts} | {last.current}
    schemas = {each.id: each for entry in entries for each in entry.schemas if each.id in needed}
    return replace(
        last,
        dropped=any(each.dropped for each in entries),
        schemas=tuple(schema for _, schema in sorted(schemas.items())),
        changed=any(each.changed for each in entries),
        images=_images(entries),
        parts=tuple(parts),
        unrepresentable=_sum(each.unrepresentable for each in entries),
        invalid_text=_sum(each.invalid_text for each in entries),
    )


def _sum(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(sorted(total.items()))


# ------------------------------------------------------------------- the numbers of row images


def _images(entries: Iterable[TableChanges]) -> tuple[tuple[int, ...], ...]:
    """Return the sets of fields that the rows of a table hold, as they are numbered in the end."""
    return tuple(dict.fromkeys(image for each in entries for image in each.images))


def _renumber_images(
    staged: Sequence[Manifest], source_name: str, store: ObjectStore
) -> list[Manifest]:
    """Return the sub-ranges with one numbering of the sets of fields in their rows.

    Each of them counts from 0. Where rows hold all fields, as by default, there is one set alone,
    and no part has to be written again.
    """
    images: dict[TableId, dict[tuple[int, ...], int]] = {}
    found = []
    for manifest in staged:
        tables = []
        for table in manifest.tables:
            known = images.setdefault(table.id, {})
            numbers = [known.setdefault(each, len(known)) for each in table.images]
            renumbered = table
            if numbers != list(range(len(numbers))):
                parts = tuple(
                    _renumber(part, table.schema(part.schema), numbers, source_name, store)
                    for part in table.parts
                )
                renumbered = replace(table, parts=parts)
            tables.append(renumbered)
        found.append(replace(manifest, tables=tuple(tables)))
    return found


def _renumber(
    part: Part, schema: Schema, numbers: Sequence[int], source_name: str, store: ObjectStore
) -> Part:
    """Write a part again, under another name, with other numbers of its row images."""
    before = pq.read_table(pa.BufferReader(store.read(part_key(source_name, part.path))))
    image = np.array(numbers, dtype=np.int32)[before[IMAGE].to_numpy()]
    column = before.schema.get_field_index(IMAGE)
    after = before.set_column(column, before.schema.field(column), pa.array(image))
    stem, _, name = part.path.removesuffix(".parquet").rpartition("-")
    digest = hashlib.sha256(json.dumps([name, list(numbers)]).encode()).hexdigest()[:_NAME_DIGITS]
    path = f"{stem}-{digest}.parquet"
    written = write_part(store, part_key(source_name, path), after, schema)
    return replace(part, path=path, bytes=written.bytes, sha256=written.sha256)
