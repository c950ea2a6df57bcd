"""The files of one source, by their paths in the source's folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from airflow_provider_binlog.errors import ObjectMissingError
from airflow_provider_binlog.staging.paths import source_folder

if TYPE_CHECKING:
    from airflow_provider_binlog.staging.object_store import ObjectStore


class ReadFiles(Protocol):
    """The files staged for one source, to be read; paths are relative to the source's folder."""

    def read(self, path: str) -> bytes | None:
        """Return a file's bytes; None if it does not exist."""

    def list(self, folder: str) -> list[str]:
        """Return the names of the files in a folder, perhaps of folders in it; none without it."""

    def locate(self, path: str) -> str:
        """Return the name of a file in messages, and for Spark."""


class StoredFiles:
    """The files staged for one source in a store."""

    def __init__(self, store: ObjectStore, source: str) -> None:
        self._store, self._source = store, source

    def read(self, path: str) -> bytes | None:
        """Return a file's bytes; None if it does not exist."""
        try:
            return self._store.read(self.locate(path))
        except ObjectMissingError:
            return None

    def list(self, folder: str) -> list[str]:
        """Return the names of the files in a folder; none if it does not exist."""
        return self._store.list(self.locate(folder))

    def locate(self, path: str) -> str:
        """Return the key of a file."""
        return f"{source_folder(self._source)}/{path}"
