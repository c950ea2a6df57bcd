"""Airflow's connections and Variables for commands, from its database, and who runs a command.

Tasks use the Task SDK instead; a command line runs in no task. Hence `airflow.models`, against
ruff's advice.
"""

from __future__ import annotations

import getpass
import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import ConfigurationError

if TYPE_CHECKING:
    from airflow_provider_binlog.sources.settings import ConnectionSettings


def find_connection(conn_id: str) -> ConnectionSettings:
    """Return the fields of an Airflow connection.

    Raises:
        ConfigurationError: There is no connection of this id, or no Airflow.
    """
    _need_airflow(f"{conn_id} is no binlog file and no mysql:// address")
    from airflow.models import Connection
    from airflow.sdk.exceptions import AirflowNotFoundException

    from airflow_provider_binlog.hooks.binlog import read_settings

    try:
        connection = Connection.get_connection_from_secrets(conn_id)  # noqa: AIR311
    except AirflowNotFoundException as error:
        raise ConfigurationError(
            f"{conn_id} is no binlog file, no mysql:// address and no Airflow connection"
        ) from error
    return read_settings(connection)


class MetastoreVariableStore:
    """Checkpoints in Variables; for the command line."""

    def __init__(self) -> None:
        """Raise ConfigurationError where Airflow is not installed."""
        _need_airflow("checkpoints are Airflow Variables")

    def get(self, key: str) -> str | None:
        """Return the stored value, or None."""
        from airflow.models import Variable

        value = Variable.get(key, default_var=None)  # noqa: AIR311
        return None if value is None else str(value)

    def set(self, key: str, value: str) -> None:
        """Store `value`."""
        from airflow.models import Variable

        from airflow_provider_binlog.hooks.variables import DESCRIPTION

        Variable.set(key, value, description=DESCRIPTION)  # noqa: AIR311


def let_hooks_read_the_database() -> None:
    """Let the Task SDK find connections outside of a task, as `airflow connections test` does.

    Raises:
        ConfigurationError: Airflow is not installed here.
    """
    _need_airflow("a staging path, or a location with a connection, is reached by Airflow")
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")


def _need_airflow(why: str) -> None:
    if find_spec("airflow") is None or find_spec("airflow.models") is None:
        raise ConfigurationError(f"{why}, and Airflow is not installed here")


def name_person() -> str:
    """Return the account's name, or its number: containers may run under one without a name."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = f"uid {os.getuid()}"
    return f"{name} by hand"
