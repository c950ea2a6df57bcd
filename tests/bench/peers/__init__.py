"""Other readers of the binlog, as small programs that use them as libraries; built once.

Each touches every value of every row. Where a toolchain is missing, its peer is left out.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.services.cache import obtain
from tests.services.progress import ServiceError, run, say, step

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_SOURCES = Path(__file__).parent
_VERSION = 1
JAVA_TOOLS = ("java", "javac", "mvn")


@dataclass(frozen=True)
class Peer:
    """A reader of files.

    Attributes:
        title: Its name and version.
        command: Its start; the file is added.
        rounds: Arguments after the file.
    """

    title: str
    command: tuple[str, ...]
    rounds: tuple[str, ...] = ()

    def measure(self, file: Path) -> dict[str, Any]:
        """Return what it counted and took, in a process of its own and warm."""
        command = [*self.command, str(file), *self.rounds]
        # One processor, as the others have: what a collector does beside counts too.
        environment = os.environ | {"GOMAXPROCS": "1"}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
        output = process.communicate()[0]
        if process.returncode:
            message = f"{self.title} failed on {file}"
            raise ServiceError(message)
        measured: dict[str, Any] = json.loads(output.splitlines()[-1])
        return measured


def obtain_peers() -> dict[str, Peer]:
    """Return the peers whose toolchains are here, by name."""
    found: dict[str, Peer] = {}
    for name, (tools, make, describe) in _PEERS.items():
        if have_tools(name, tools):
            found[name] = describe(obtain(f"bench/{name}-{_VERSION}", make))
    return found


def have_tools(name: str, tools: Sequence[str]) -> bool:
    """Whether the programs are here that build a peer; says so if they are not."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        say(f"{name} is left out: there is no {' and no '.join(missing)}")
    return not missing


def build_java(source: Path, program: str, folder: Path) -> None:
    """Compile a program into a folder, and copy the jars that its `pom.xml` names to `lib`."""
    copy = ["mvn", "-q", "-B", "-f", str(source / "pom.xml"), "dependency:copy-dependencies"]
    run([*copy, f"-DoutputDirectory={folder / 'lib'}"])
    run(["javac", "-d", str(folder), "-cp", f"{folder}/lib/*", str(source / f"{program}.java")])


def _make_gomysql(folder: Path) -> None:
    shutil.copytree(_SOURCES / "gomysql", folder / "source")
    with step("bench: build go-mysql's reader"):
        environment = os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-mod=mod -trimpath"}
        source, program = str(folder / "source"), str(folder / "gomysql")
        run(["go", "build", "-C", source, "-o", program, "."], env=environment)


def _make_canal(folder: Path) -> None:
    source = _SOURCES / "canal"
    with step("bench: build canal's reader"):
        build_java(source, "Canal", folder)
    shutil.copy(source / "logback.xml", folder)


def _gomysql(folder: Path) -> Peer:
    return Peer("go-mysql 1.16.0, CRC32 verified, warm", (str(folder / "gomysql"),))


def _canal(folder: Path) -> Peer:
    java = ("java", "-XX:+UseSerialGC", "-XX:ActiveProcessorCount=1", "-Xmx2g")
    command = (*java, "-cp", f"{folder}:{folder}/lib/*", "Canal")
    return Peer("canal 1.1.8, no CRC32, warm (best of 4)", command, ("4",))


_PEERS: dict[str, tuple[tuple[str, ...], Callable[[Path], None], Callable[[Path], Peer]]] = {
    "gomysql": (("go",), _make_gomysql, _gomysql),
    "canal": (JAVA_TOOLS, _make_canal, _canal),
}
