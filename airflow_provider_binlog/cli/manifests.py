"""`manifest`: what a staged range holds, and whether its files are there."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterator
from typing import Any

from airflow_provider_binlog.cli.output import print_records, track
from airflow_provider_binlog.cli.source import open_staging
from airflow_provider_binlog.errors import ManifestError, ObjectMissingError, StagingError
from airflow_provider_binlog.manifest import Manifest, Part, check_follows
from airflow_provider_binlog.names import join_table_name
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.staging.paths import part_key


def show(arguments: argparse.Namespace) -> None:
    """Print the manifests of a source, or the tables of one of them.

    Raises:
        ManifestError: There is no manifest of this number.
    """
    log = ManifestLog(open_staging(arguments.staging_path), arguments.name)
    if arguments.number is None:
        records = [_describe(log.load(number)) for number in log.sequences()]
    else:
        records = list(_list_tables(log.load(arguments.number)))
    print_records(records, arguments.output)


def _describe(manifest: Manifest) -> dict[str, Any]:
    return {
        "manifest": manifest.sequence,
        "start": str(manifest.start),
        "stop": str(manifest.stop),
        "tables": len(manifest.tables),
        "rows": manifest.rows,
        "parts": sum(len(table.parts) for table in manifest.tables),
        "bytes": sum(part.bytes for table in manifest.tables for part in table.parts),
        "quarantined": [f"{table.database}.{table.table}" for table in manifest.quarantined],
        "created_at": manifest.created_at,
        "created_by": manifest.created_by,
    }


def _list_tables(manifest: Manifest) -> Iterator[dict[str, Any]]:
    reasons = {(entry.database, entry.table): entry.reason for entry in manifest.quarantined}
    for table in manifest.tables:
        yield {
            "table": join_table_name(table.name),
            "rows": table.rows,
            "changes": table.changes,
            "parts": len(table.parts),
            "bytes": sum(part.bytes for part in table.parts),
            "replaced": {**table.unrepresentable, **table.invalid_text},
            "quarantined": reasons.get(table.name, ""),
        }


def verify(arguments: argparse.Namespace) -> int:
    """Read every part of all manifests, or of one; print what is wrong; return 1 if anything is.

    The manifests have to follow each other without a gap, and each part has to be as long as its
    manifest says, and have the same SHA-256.
    """
    store = open_staging(arguments.staging_path)
    log = ManifestLog(store, arguments.name)
    numbers = log.sequences() if arguments.number is None else [arguments.number]
    wrong: list[dict[str, Any]] = []
    before: Manifest | None = None
    for number in track(numbers, "manifests"):
        try:
            manifest = log.load(number)
            if before is not None:
                check_follows(before.end, manifest)
            before = manifest
        except StagingError as error:
            wrong.append({"manifest": number, "path": "", "problem": str(error)})
            continue
        parts = [part for table in manifest.tables for part in table.parts]
        problems = ((part, _check_part(store, arguments.name, part)) for part in parts)
        wrong += [
            {"manifest": number, "path": part.path, "problem": problem}
            for part, problem in problems
            if problem
        ]
    print_records(wrong, arguments.output)
    if not numbers:
        raise ManifestError("nothing is staged there", source=arguments.name)
    return 1 if wrong else 0


def _check_part(store: ObjectStore, source: str, part: Part) -> str:
    """Return what is wrong with a part; empty if nothing is."""
    try:
        data = store.read(part_key(source, part.path))
    except ObjectMissingError:
        return "it is missing"
    if len(data) != part.bytes:
        return f"it has {len(data)} bytes, and its manifest says {part.bytes}"
    if hashlib.sha256(data).hexdigest() != part.sha256:
        return "its SHA-256 is another one than its manifest says"
    return ""
