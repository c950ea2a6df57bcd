"""`status`, `checkpoint show` and `checkpoint set`: the state of a source's log and checkpoint."""

from __future__ import annotations

import sys
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_binlog.cli.environment import (
    MetastoreVariableStore,
    let_hooks_read_the_database,
    name_person,
)
from airflow_provider_binlog.cli.source import read_settings
from airflow_provider_binlog.errors import CheckpointMissingError, ConfigurationError
from airflow_provider_binlog.sources.settings import Connections
from airflow_provider_binlog.transport.server import queries, setup
from airflow_provider_binlog.transport.server.foreign_keys import unlogged_foreign_keys
from airflow_provider_binlog.transport.server.information_schema import describe_tables
from airflow_provider_binlog.transport.server.status import global_variables

if TYPE_CHECKING:
    import argparse

    from airflow_provider_binlog.checkpoint import Checkpoint


def show_checkpoint(arguments: argparse.Namespace) -> None:
    """Print a source's checkpoint as it is stored.

    Raises:
        CheckpointMissingError: No checkpoint is saved.
    """
    store = MetastoreVariableStore()
    from airflow_provider_binlog.checkpoint import load

    checkpoint = load(store, _key(arguments.name))
    if checkpoint is None:
        raise CheckpointMissingError(f"no checkpoint is saved for {arguments.name}")
    sys.stdout.write(checkpoint.encode() + "\n")


def set_checkpoint(arguments: argparse.Namespace) -> None:
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


_OWN_DATABASES = ("information_schema", "mysql", "performance_schema", "sys")


def show_server(arguments: argparse.Namespace) -> None:
    """Print where a server's log ends, and what it lacks for capture.

    Raises:
        ServerSetupError, AccessDeniedError: The text names all that is missing.
    """
    settings = read_settings(arguments.source)
    connections = Connections(settings)
    with closing(settings.connect()) as connection:
        values = global_variables(connection)
        _print("server", f"{settings.address}, {values.get('version', '')}")
        # First: a server without a log, or an account without privileges, cannot answer the rest.
        setup.check_setup(connection)
        connections.check(connection)
        identity = queries.identify(connection)
        logs = queries.binary_logs(connection)
        _print("identity", str(identity))
        _print("log", f"{len(logs)} files, {sum(log.size for log in logs)} bytes")
        _print("oldest", str(queries.first_position(connection)))
        _print("end", str(queries.log_end(connection)))
        _print("executed", queries.gtid_executed(connection) or "-")
        _print("tables", describe_tables(connection))
    foreign_keys = unlogged_foreign_keys(
        connections.open, lambda name, _: name not in _OWN_DATABASES
    )
    for key in foreign_keys.unlogged:
        _print("unlogged", str(key))
    if foreign_keys.unknown:
        _print("unlogged", f"not known, or not all: {foreign_keys.unknown}")
    _print("capture", "ready")


def _print(name: str, value: str) -> None:
    sys.stdout.write(f"{name:<10}{value}\n")
