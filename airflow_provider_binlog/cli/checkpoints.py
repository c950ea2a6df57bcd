"""`checkpoint`: show it, set it, and lead it back to what is staged."""

from __future__ import annotations

import argparse
from contextlib import closing
from typing import Any

from airflow_provider_binlog.checkpoint import Checkpoint, checkpoint_key, load, overwrite, rebuild
from airflow_provider_binlog.cli.output import print_record
from airflow_provider_binlog.cli.source import (
    MetastoreVariableStore,
    name_person,
    open_staging,
    read_settings,
)
from airflow_provider_binlog.errors import CheckpointMissingError, ConfigurationError
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.stored_json import utc_now


def show(arguments: argparse.Namespace) -> None:
    """Print a source's checkpoint.

    Raises:
        CheckpointMissingError: No checkpoint is saved.
    """
    checkpoint = load(MetastoreVariableStore(), checkpoint_key(arguments.name))
    if checkpoint is None:
        raise CheckpointMissingError(f"no checkpoint is saved for {arguments.name}")
    _print(arguments, checkpoint)


def set_position(arguments: argparse.Namespace) -> None:
    """Overwrite the checkpoint.

    Raises:
        ConfigurationError: The arguments do not say what to save.
    """
    if arguments.from_manifests and not (arguments.conn or arguments.position):
        arguments.staging_path = arguments.from_manifests
        rebuild_newest(arguments)
        return
    if not (arguments.conn and arguments.position) or arguments.from_manifests:
        raise ConfigurationError(
            "say either --from-manifests STAGING_PATH, or --conn CONN and --position POSITION"
        )
    from airflow_provider_binlog.sources.server_log import ServerLog

    with closing(ServerLog(read_settings(arguments.conn))) as server:
        identity, position = server.locate(arguments.position)
    _save(arguments, Checkpoint(identity, position, arguments.sequence, utc_now(), name_person()))


def rebuild_newest(arguments: argparse.Namespace) -> None:
    """Save the stop of the newest manifest, as after the checkpoint was lost.

    Raises:
        StagingError: Nothing is staged.
    """
    log = ManifestLog(open_staging(arguments.staging_path), arguments.name)
    _save(arguments, rebuild(log, saved_at=utc_now(), saved_by=name_person()))


def rewind(arguments: argparse.Namespace) -> None:
    """Save the stop of an earlier manifest: the next run passes those after it on once more.

    Raises:
        ManifestError: There is no such manifest.
    """
    log = ManifestLog(open_staging(arguments.staging_path), arguments.name)
    manifest = log.load(arguments.to)
    _save(arguments, Checkpoint.covering(manifest, saved_at=utc_now(), saved_by=name_person()))


def _save(arguments: argparse.Namespace, checkpoint: Checkpoint) -> None:
    overwrite(MetastoreVariableStore(), checkpoint_key(arguments.name), checkpoint)
    _print(arguments, checkpoint)


def _print(arguments: argparse.Namespace, checkpoint: Checkpoint) -> None:
    position = checkpoint.position
    record: dict[str, Any] = {
        "source": arguments.name,
        "position": str(position),
        "gtid": position.gtid,
        "manifest": checkpoint.sequence,
        "server": str(checkpoint.identity),
        "log": checkpoint.identity.log_name,
        "saved_at": checkpoint.saved_at,
        "saved_by": checkpoint.saved_by,
    }
    print_record(record, arguments.output)
