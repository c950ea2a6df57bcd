"""What a task that staged changes returns, and says in its log; and what others read of it."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.checkpoint import Checkpoint, advance
from airflow_provider_binlog.errors import ConfigurationError, FormatError
from airflow_provider_binlog.hooks.failures import naming_repair_command
from airflow_provider_binlog.hooks.tasks import now
from airflow_provider_binlog.hooks.variables import AirflowVariableStore, checkpoint_key
from airflow_provider_binlog.position import Position, SourceIdentity
from airflow_provider_binlog.staging.paths import manifest_folder, manifest_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_binlog.capture import Extracted, ExtractRequest
    from airflow_provider_binlog.sources.log import Log


def report_staged(
    logger: Any, extracted: Extracted, checkpoint: Checkpoint, name: str, staging_path: str
) -> dict[str, Any]:
    """Return what is staged after a checkpoint, for XCom, and log what its reader should know.

    Args:
        logger: The task's.
        extracted: What is staged; one manifest at least.
        checkpoint: After which.
        name: Of the source.
        staging_path: Of the task.
    """
    staged = _describe(extracted, checkpoint, name, staging_path)
    counts = staged["changes"] or "no changes"
    logger.info("%s: staged up to %s: %s", name, extracted.stop, counts)
    if prepared := extracted.manifests[-1].prepared:
        logger.warning(
            "%s: %d prepared XA transactions are in doubt: until they are committed or rolled "
            "back, the server must keep its log from %s on",
            name,
            len(prepared),
            prepared[0].file,
        )
    for table, found in staged["quarantined"].items():
        logger.warning(
            "%s: %s is quarantined, for the event at %s, and has to be reloaded: %s",
            name,
            table,
            found["position"],
            found["reason"],
        )
    return staged


def warn_of_foreign_keys(
    logger: Any, log: Log, request: ExtractRequest, extracted: Extracted
) -> None:
    """Warn of foreign keys that change captured rows without an event in the log."""
    staged = (table for manifest in extracted.manifests for table in manifest.tables)
    logged = {(table.database, table.table) for table in staged}
    if found := str(log.unlogged_foreign_keys(request.tables.matches, logged)):
        logger.warning(
            "%s: foreign keys that change captured rows without an event in the log, so that "
            "the lake keeps their previous values: %s",
            request.source_name,
            found,
        )


def move_checkpoint(staged: Mapping[str, Any], *, saved_by: str) -> tuple[str, Checkpoint]:
    """Move a checkpoint past what was staged; return the source's name, and what is saved.

    Raises:
        CheckpointError: It cannot be read, or is not where the extract found it.
        ConfigurationError: `staged` is not what an extract returned.
    """
    source, expected, new = read_staged(staged, saved_by=saved_by)
    with naming_repair_command(source, staged.get("staging_path")):
        key = checkpoint_key(source)
        return source, advance(AirflowVariableStore(), key, expected=expected, new=new)


def read_staged(staged: Mapping[str, Any], *, saved_by: str) -> tuple[str, Checkpoint, Checkpoint]:
    """Return the source's name, the checkpoint that the extract found, and the one to save.

    Raises:
        ConfigurationError: It is not what an extract returned.
    """
    try:
        new = Checkpoint(
            identity=SourceIdentity.from_json(staged["identity"]),
            position=Position.from_json(staged["stop"]),
            sequence=int(staged["last_sequence"]),
            saved_at=now(),
            saved_by=saved_by,
        )
        found = Checkpoint.decode(json.dumps(staged["checkpoint"]))
        return str(staged["source"]), found, new
    except (FormatError, KeyError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"`staged` is what the extract operator returned: {error!r}"
        ) from error


def _describe(
    extracted: Extracted, checkpoint: Checkpoint, name: str, staging_path: str
) -> dict[str, Any]:
    manifests = extracted.manifests
    folder = f"{staging_path.rstrip('/')}/{manifest_folder(name)}"
    changes: Counter[str] = Counter()
    tables: Counter[str] = Counter()
    quarantined: dict[str, dict[str, str]] = {}
    for each in (each for manifest in manifests for each in manifest.quarantined):
        found = {"position": each.position, "reason": each.reason}
        quarantined.setdefault(f"{each.database}.{each.table}", found)
    for table in (table for manifest in manifests for table in manifest.tables):
        changes.update(table.changes)
        tables[f"{table.database}.{table.table}"] += table.rows
    return {
        "source": name,
        "staging_path": staging_path,
        "first_sequence": manifests[0].sequence,
        "last_sequence": manifests[-1].sequence,
        "start": extracted.start.to_json(),
        "stop": extracted.stop.to_json(),
        "manifests": [f"{folder}/{manifest_name(each.sequence)}" for each in manifests],
        "rows": changes.total(),
        "changes": dict(changes),
        "tables": dict(tables),
        "quarantined": quarantined,
        "identity": manifests[-1].identity.to_json(),
        "checkpoint": json.loads(checkpoint.encode()),
    }
