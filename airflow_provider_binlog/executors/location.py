"""A folder or a file as a process on another machine reaches it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Location:
    """Where files are.

    Attributes:
        protocol: Names the file system in fsspec.
        path: On it.
        options: What the file system is opened with, as JSON: credentials are in it.
    """

    protocol: str
    path: str
    options: str = field(default="{}", repr=False)

    def open(self) -> tuple[Any, str]:
        """Return the file system, and the path."""
        # Here: the driver of Spark passes locations on, and needs none.
        import fsspec  # noqa: PLC0415

        return fsspec.filesystem(self.protocol, **json.loads(self.options)), self.path
