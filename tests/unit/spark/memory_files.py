"""Staged files in memory, as a merge uses them."""

from __future__ import annotations


class Files:
    """Files in memory."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}

    def read(self, path: str) -> bytes | None:
        return self.data.get(path)

    def exists(self, path: str) -> bool:
        return path in self.data

    def size(self, path: str) -> int | None:
        return len(self.data[path]) if path in self.data else None

    def list(self, folder: str) -> list[str]:
        return [path.rpartition("/")[2] for path in self.data if path.startswith(f"{folder}/")]

    def write(self, path: str, data: bytes) -> None:
        self.data[path] = data

    def delete(self, path: str) -> None:
        self.data.pop(path, None)

    def locate(self, path: str) -> str:
        return f"memory:/{path}"
