"""A control group of the kernel that limits the memory of the processes in it, as a container's."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

_ROOT = Path("/sys/fs/cgroup")


class MemoryGroup:
    """A group below that of this process; its processes are killed where they take too much.

    Attributes:
        folder: Of its files.

    Raises:
        OSError: This process may not make one.
    """

    def __init__(self) -> None:
        parent, self._limit = _find_own()
        self.folder = parent / f"binlog-tests-{uuid4().hex}"
        self.folder.mkdir()
        if not (self.folder / self._limit).exists():
            self.folder.rmdir()
            message = f"memory is not limited below {parent}"
            raise OSError(message)

    def limit(self, size: int) -> None:
        """Let its processes take so many bytes together."""
        (self.folder / self._limit).write_text(str(size))

    def join(self, pid: int) -> None:
        """Let what a process takes from now on, and all that its children take, count."""
        (self.folder / "cgroup.procs").write_text(str(pid))

    def remove(self) -> None:
        """Remove the group, whose processes have ended."""
        self.folder.rmdir()


def _find_own() -> tuple[Path, str]:
    """Return the folder of this process's group, and the name of the file of a group's limit."""
    for line in Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return _ROOT / "memory" / path.lstrip("/"), "memory.limit_in_bytes"
    return _ROOT / path.lstrip("/"), "memory.max"
