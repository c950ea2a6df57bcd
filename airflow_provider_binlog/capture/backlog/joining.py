"""Make one manifest of the sub-ranges of a backlog, and commit it."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_binlog.capture.backlog.sub_ranges import BacklogPlan, find_result
from airflow_provider_binlog.changes import IMAGE
from airflow_provider_binlog.errors import ConflictError, ManifestError
from airflow_provider_binlog.manifest import Manifest, Part, Statement, TableChanges
from airflow_provider_binlog.schema import QuarantineTable, Schema, TableId
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.staging.part_writer import write_part
from airflow_provider_binlog.staging.paths import part_key
from airflow_provider_binlog.stored_json import utc_now

_NAME_DIGITS = 12


def commit_backlog(plan: BacklogPlan, store: ObjectStore, *, created_by: str) -> Manifest:
    """Commit and return the manifest of a backlog whose sub-ranges are all staged.

    A retry returns the manifest that an earlier try committed.

    Raises:
        ManifestError: A sub-range is not staged, or starts in another state than the previous
            sub-range ended in.
        ConflictError: Another run has staged this range, or a part of it.
    """
    log = ManifestLog(store, plan.source_name)
    committed = log.reuse(plan.sequence, plan.identity, plan.start)
    if committed is not None:
        if committed.stop.coordinates != plan.stop.coordinates:
            raise ConflictError(
                "another run has staged a part of this backlog meanwhile: plan what follows again",
                sequence=plan.sequence,
                stop=committed.stop,
            )
        return committed
    staged = list(_load(plan, store))
    _check_chain(plan, staged)
    manifest = _join(_renumber_images(staged, plan.source_name, store), created_by)
    log.commit(manifest)
    return manifest


def _load(plan: BacklogPlan, store: ObjectStore) -> Iterator[Manifest]:
    for number, sub_range in enumerate(plan.sub_ranges):
        staged = find_result(plan, number, store)
        if staged is None:
            raise ManifestError(
                "a sub-range of the backlog is not staged: run its task again",
                number=number,
                start=sub_range.start,
            )
        yield staged


def _check_chain(plan: BacklogPlan, staged: Sequence[Manifest]) -> None:
    """Refuse a sub-range that started in another state than the previous sub-range ended in."""
    # The plan decodes no rows, so it lacks the tables that are quarantined for a row.
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
                "a sub-range of the backlog ended otherwise than it was planned: the log is not "
                "what it was; plan the backlog again",
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
        tables=tuple(sorted(tables, key=lambda table: table.name)),
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
        events=_sum(manifest.events for manifest in staged),
        skipped_events=_sum(manifest.skipped_events for manifest in staged),
        created_at=utc_now(),
        created_by=created_by,
    )


def _join_quarantined(entries: Sequence[TableChanges]) -> TableChanges:
    without = [
        replace(entry, parts=(), images=(), unrepresentable={}, invalid_text={})
        for entry in entries
    ]
    return replace(_join_table(without), created=None)


def _join_table(entries: Sequence[TableChanges]) -> TableChanges:
    """Return the joined entry of a table in consecutive sub-ranges."""
    last = entries[-1]
    parts = sorted(
        (part for entry in entries for part in entry.parts), key=lambda part: part.first_row
    )
    # As in one range: without the schemas that only the start of a sub-range had.
    needed = {part.schema for part in parts} | {last.current}
    schemas = {
        schema.id: schema for entry in entries for schema in entry.schemas if schema.id in needed
    }
    return replace(
        last,
        dropped=any(entry.dropped for entry in entries),
        schemas=tuple(schema for _, schema in sorted(schemas.items())),
        changed=any(entry.changed for entry in entries),
        images=tuple(dict.fromkeys(image for entry in entries for image in entry.images)),
        parts=tuple(parts),
        unrepresentable=_sum(entry.unrepresentable for entry in entries),
        invalid_text=_sum(entry.invalid_text for entry in entries),
    )


def _sum(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(sorted(total.items()))


def _renumber_images(
    staged: Sequence[Manifest], source_name: str, store: ObjectStore
) -> list[Manifest]:
    """Return the sub-ranges with one numbering of the sets of fields in their rows.

    Every sub-range numbers its sets from 0. Where rows hold all fields, as by default, there is
    one set, and no part has to be written again.
    """
    images: dict[TableId, dict[tuple[int, ...], int]] = {}
    joined = []
    for manifest in staged:
        tables = []
        for table in manifest.tables:
            numbered = images.setdefault(table.id, {})
            numbers = [numbered.setdefault(image, len(numbered)) for image in table.images]
            renumbered = table
            if numbers != list(range(len(numbers))):
                parts = tuple(
                    _renumber(part, table.schema(part.schema), numbers, source_name, store)
                    for part in table.parts
                )
                renumbered = replace(table, parts=parts)
            tables.append(renumbered)
        joined.append(replace(manifest, tables=tuple(tables)))
    return joined


def _renumber(
    part: Part, schema: Schema, numbers: Sequence[int], source_name: str, store: ObjectStore
) -> Part:
    """Write a part again, with other numbers of its row images.

    Its name is another one: the result of the sub-range, which a retry reads, names the first part.
    """
    before = pq.read_table(pa.BufferReader(store.read(part_key(source_name, part.path))))
    image = np.array(numbers, dtype=np.int32)[before[IMAGE].to_numpy()]
    column = before.schema.get_field_index(IMAGE)
    after = before.set_column(column, before.schema.field(column), pa.array(image))
    stem, _, name = part.path.removesuffix(".parquet").rpartition("-")
    digest = hashlib.sha256(json.dumps([name, list(numbers)]).encode()).hexdigest()[:_NAME_DIGITS]
    path = f"{stem}-{digest}.parquet"
    written = write_part(store, part_key(source_name, path), after, schema)
    return replace(part, path=path, bytes=written.bytes, sha256=written.sha256)
