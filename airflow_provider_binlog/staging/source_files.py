"""The files of one source in a store, by their paths in the source's folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import ObjectMissingError
from airflow_provider_binlog.staging.paths import source_folder

if TYPE_CHECKING:
    from airflow_provider_binlog.staging.object_store import ObjectStore


class StoredFiles:
    """The files staged for one source, as a task reads them; a `ReadFiles` of the merge."""

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
