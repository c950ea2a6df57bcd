"""`checkpoint show` and `checkpoint set`."""

from __future__ import annotations

import sys
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_binlog.cli.airflow_stores import (
    MetastoreVariableStore,
    let_hooks_read_the_database,
)
from airflow_provider_binlog.cli.person import name_person
from airflow_provider_binlog.cli.source import read_settings
from airflow_provider_binlog.errors import CheckpointMissingError, ConfigurationError

if TYPE_CHECKING:
    import argparse

    from airflow_provider_binlog.checkpoint import Checkpoint


def show(arguments: argparse.Namespace) -> None:
    """Print a source's checkpoint as it is stored.

    Raises:
        CheckpointMissingError: There is none.
    """
    store = MetastoreVariableStore()
    from airflow_provider_binlog.checkpoint import load

    found = load(store, _key(arguments.name))
    if found is None:
        raise CheckpointMissingError(f"no checkpoint is saved for {arguments.name}")
    sys.stdout.write(found.encode() + "\n")


def set_(arguments: argparse.Namespace) -> None:
    """Overwrite the checkpoint.

    Raises:
        ConfigurationError: The arguments do not say what to save.
    """
    store = MetastoreVariableStore()
    from airflow_provider_binlog.checkpoint import overwrite

    if arguments.from_manifests and not (arguments.conn or arguments.position):
        new = _from_manifests(arguments.name, arguments.from_manifests)
    elif arguments.conn and arguments.position and not arguments.from_manifests:
        new = _from_server(arguments.conn, arguments.position, arguments.sequence)
    else:
        raise ConfigurationError(
            "say either --from-manifests STAGING_PATH, or --conn CONN and --position POSITION"
        )
    overwrite(store, _key(arguments.name), new)
    sys.stdout.write(f"{arguments.name}: {new}\n")


def _from_manifests(name: str, staging_path: str) -> Checkpoint:
    from airflow_provider_binlog.checkpoint import rebuild
    from airflow_provider_binlog.hooks.object_storage import open_store
    from airflow_provider_binlog.staging.manifest_log import ManifestLog

    let_hooks_read_the_database()
    log = ManifestLog(open_store(staging_path), name)
    return rebuild(log, saved_at=_now(), saved_by=name_person())


def _from_server(conn: str, position: str, sequence: int) -> Checkpoint:
    from airflow_provider_binlog.checkpoint import Checkpoint
    from airflow_provider_binlog.sources.server_log import ServerLog

    with closing(ServerLog(read_settings(conn))) as log:
        identity, resolved = log.locate(position)
    return Checkpoint(identity, resolved, sequence, _now(), name_person())


def _key(name: str) -> str:
    from airflow_provider_binlog.hooks.variables import checkpoint_key

    return checkpoint_key(name)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
