"""The argument SOURCE: binlog files, the address of a server, an Airflow connection; and Airflow.

A command line runs in no task. Hence `airflow.models`, not the Task SDK.
"""

from __future__ import annotations

import getpass
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_provider_binlog.errors import ConfigurationError, FormatError
from airflow_provider_binlog.position import Position, parse_position
from airflow_provider_binlog.sources.binlog_files import BinlogFiles, find_files, reach_plainly
from airflow_provider_binlog.sources.settings import DSN_SCHEMES, ConnectionSettings
from airflow_provider_binlog.sources.state import Log
from airflow_provider_binlog.transport.files.names import is_pattern, plain_name

if TYPE_CHECKING:
    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.staging.object_store import ObjectStore
    from airflow_provider_binlog.transport.files.content import BinaryFile

# An address in a file or variable: its password is in no list of processes.
_IN_FILE, _IN_VARIABLE = "@", "env:"


@dataclass(frozen=True)
class Range:
    """A part of a log."""

    log: Log
    start: Position
    stop: Position | None

    def blocks(self, start: Position | None = None) -> Iterator[EventBlock]:
        """Yield the events of the range, or of its rest from `start` on."""
        for block in self.log.blocks(start or self.start, self.stop):
            count = len(block)
            if self.stop is not None and block.file == self.stop.file:
                # The last block may go on beyond the stop.
                count = int((block.offset < self.stop.offset).sum())
            yield block.part(0, count)


def find_range(source: Sequence[str], *, start: str | None, stop: str | None) -> Range:
    """Return what the arguments name: a log, and where in it to start and to stop.

    Raises:
        ConfigurationError: They name nothing that can be read.
    """
    log = find_log(source)
    begin = _parse_position(start) if start else log.first()
    return Range(log, begin, _parse_position(stop) if stop else None)


def read_settings(source: str) -> ConnectionSettings:
    """Return how to reach the server that an address or an Airflow connection names.

    Raises:
        ConfigurationError: The address is none, the connection does not exist, or Airflow is not
            installed here.
        OSError: The file that holds the address cannot be read.
    """
    source = _read_address(source)
    if source.partition("://")[0] in DSN_SCHEMES:
        return ConnectionSettings.from_dsn(source)
    if "://" in source:
        raise ConfigurationError(
            f"not the address of a server: it starts with mysql:// or mariadb://, not with "
            f"{source.partition('://')[0]}://"
        )
    return find_connection(source)


def _read_address(source: str) -> str:
    """Return the address in the variable or the file that a source names, or the source itself."""
    if source.startswith(_IN_FILE):
        return Path(source.removeprefix(_IN_FILE)).read_text().strip()
    if source.startswith(_IN_VARIABLE):
        name = source.removeprefix(_IN_VARIABLE)
        if not os.environ.get(name):
            raise ConfigurationError(f"the environment variable {name} is not set")
        return os.environ[name].strip()
    return source


def find_log(source: Sequence[str]) -> Log:
    """Return the log that SOURCE names.

    Raises:
        ConfigurationError: It names nothing that can be read.
    """
    # Here, because the commands that read no log need not load NumPy.
    from airflow_provider_binlog.sources.file_log import FileLog
    from airflow_provider_binlog.sources.server_log import ServerLog

    if len(source) == 1 and not _names_files(source[0]):
        return ServerLog(read_settings(source[0]))
    return FileLog(_find_files(source))


def _names_files(source: str) -> bool:
    """Whether a source is files, or looks like a file that is missing."""
    if source.startswith((_IN_FILE, _IN_VARIABLE)):
        return False
    if "://" in source:
        return source.partition("://")[0] not in DSN_SCHEMES
    name = plain_name(source)
    return Path(source).exists() or os.sep in source or re.search(r"\.\d+$", name) is not None


def _find_files(source: Sequence[str]) -> BinlogFiles:
    """Return the files in the given order, the files of a folder in the order of the log."""
    openers: dict[str, Callable[[str], BinaryFile]] = {}
    for location in source:
        openers |= _find(location)
    return BinlogFiles(tuple(openers), (), lambda path: openers[path](path), as_given=True)


def _find(location: str) -> dict[str, Callable[[str], BinaryFile]]:
    from airflow_provider_binlog.transport.files.reader import FileBlockStream, open_local

    path = Path(location)
    is_glob = is_pattern(path.name) and not path.exists()
    if "://" not in location and not path.is_dir() and not is_glob:
        return {location: open_local}
    files = find_files(location, _reach)
    FileBlockStream(files.paths)  # refuses a gap in the numbers of the files
    if files.ignored:
        sys.stderr.write(f"note: skipped: {', '.join(files.ignored)}\n")
    return dict.fromkeys(files.paths, files.open)


def _reach(location: str) -> tuple[Any, str]:
    """Return the file system of a location: by an Airflow connection, if it names one."""
    if "@" in urlsplit(location).netloc:
        let_hooks_read_the_database()
        from airflow_provider_binlog.hooks.object_storage import reach

        return reach(location)
    return reach_plainly(location)


def _parse_position(text: str) -> Position:
    try:
        return parse_position(text)
    except FormatError as error:
        raise ConfigurationError(str(error.args[0]), given=text[:200]) from error


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

        from airflow_provider_binlog.hooks.tasks import VARIABLE_DESCRIPTION

        Variable.set(key, value, description=VARIABLE_DESCRIPTION)  # noqa: AIR311


def open_staging(staging_path: str) -> ObjectStore:
    """Return the store of a staging path, as the DAG's tasks name it.

    Raises:
        ConfigurationError: It cannot be reached.
    """
    let_hooks_read_the_database()
    from airflow_provider_binlog.hooks.object_storage import open_store

    return open_store(staging_path)


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
