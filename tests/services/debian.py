"""Unpack Debian packages into a folder, without root and without touching the machine.

An apt of our own reads one suite and nothing else. Of the machine's settings it keeps the
archive it uses, the proxy and the credentials.
"""

from __future__ import annotations

import getpass
import os
import shutil
from typing import TYPE_CHECKING

from tests.services.progress import ServiceError, run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_PROGRAMS = ("apt-get", "apt-config", "dpkg-deb")
# Suites of Debian's main archive. Others in a machine's sources (security, updates,
# another vendor's) lie elsewhere.
_SUITES = {
    *("stable", "oldstable", "testing", "unstable"),
    *("bullseye", "bookworm", "trixie", "forky", "sid"),
}


def unpack(packages: Sequence[str], *, suite: str, folder: Path) -> None:
    """Unpack `packages` of Debian's `suite` and all they depend on into `folder`.

    Raises:
        ServiceError: The machine has no apt, or apt cannot reach the archive.
    """
    for program in _PROGRAMS:
        if shutil.which(program) is None:
            message = (
                f"{program} is not installed, and Debian's packages are where the database"
                " servers come from; use a server of your own with SERVER_DSN="
            )
            raise ServiceError(message)
    apt = folder / "apt"
    env = os.environ | {"APT_CONFIG": str(_configure(apt, suite)), "LC_ALL": "C"}
    run(["apt-get", "--quiet", "update"], env=env)
    run(["apt-get", "--quiet", "--yes", "--download-only", "install", *packages], env=env)
    for archive in sorted((apt / "archives").glob("*.deb")):
        run(["dpkg-deb", "--extract", archive, folder])
    shutil.rmtree(apt)


def _configure(apt: Path, suite: str) -> Path:
    """Write the settings of an apt that keeps its files in `apt`; return their file."""
    for part in ("lists", "archives"):
        (apt / part / "partial").mkdir(parents=True)
    (apt / "status").touch()
    source = f"deb [signed-by={_KEYRING}] {_archive()} {suite} main\n"
    (apt / "sources.list").write_text(source)
    own = {
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": getpass.getuser(),
        "Acquire::Languages": "none",
        "Acquire::Retries": "3",
        "Dir::Cache": apt,
        "Dir::Cache::archives": apt / "archives",
        "Dir::Etc::main": "/dev/null",
        "Dir::Etc::parts": "/dev/null",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Dir::Etc::sourcelist": apt / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State": apt,
        "Dir::State::lists": apt / "lists",
        "Dir::State::status": apt / "status",
    }
    settings = [*_machine_settings(), *(f'{key} "{value}";' for key, value in own.items())]
    file = apt / "apt.conf"
    file.write_text("\n".join(settings) + "\n")
    return file


def _machine_settings() -> list[str]:
    """Return how this machine reaches archives: proxies, certificates, credentials."""
    dump = run(["apt-config", "dump", "--no-empty", "--format", '%f "%v";%n'])
    wanted = ("Acquire::", "APT::Architecture", "Dir::Etc::netrc")
    unwanted = ("Acquire::IndexTargets", "Acquire::Languages")
    return [
        line
        for line in dump.splitlines()
        if line.startswith(wanted) and not line.startswith(unwanted)
    ]


def _archive() -> str:
    """Return the address of the Debian archive that this machine uses.

    Raises:
        ServiceError: Its apt has none.
    """
    if own := os.environ.get("DEBIAN_MIRROR"):
        return own
    form = "$(REPO_URI) $(RELEASE) $(COMPONENT)"
    for line in run(["apt-get", "indextargets", "--format", form]).splitlines():
        address, suite, component = line.split(" ")
        if suite in _SUITES and component == "main":
            return address
    message = (
        "no Debian archive is in this machine's apt sources; name one with DEBIAN_MIRROR=,"
        " or use a server of your own with SERVER_DSN="
    )
    raise ServiceError(message)
