"""Chromium for the tests of the page: the machine's, or Debian's unpacked beside its libraries.

It runs on the machine's own C library, because it starts itself again by its own path; Debian 12's
is the oldest that is needed.
"""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path
from typing import NamedTuple

from tests.services.cache import obtain
from tests.services.debian import unpack
from tests.services.progress import step

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_SUITE = "bookworm"
_PACKAGES = ("chromium-headless-shell", "fonts-liberation")
_TRIPLET = f"{platform.machine()}-linux-gnu"
# What libpulse has for itself is in a folder of its own.
_LIBRARIES = (f"usr/lib/{_TRIPLET}", f"lib/{_TRIPLET}", f"usr/lib/{_TRIPLET}/pulseaudio")
# What belongs to the machine's C library, whichever version that is.
_MACHINES = (
    *("ld-linux*", "libc.so*", "libc-*", "libm.so*", "libdl.so*", "libpthread.so*"),
    *("librt.so*", "libresolv.so*", "libnss_files*", "libnss_dns*", "libanl.so*"),
)
_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{folder}/usr/share/fonts</dir><cachedir>{folder}/fonts</cachedir></fontconfig>
"""

ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--disable-dev-shm-usage",
)
"""What it is started with: no process of it needs rights that a container lacks, or the network."""


class Chromium(NamedTuple):
    """A program, and the environment that it needs."""

    program: Path
    env: dict[str, str]


def find_chromium() -> Chromium:
    """Return the machine's Chromium, or one that is unpacked.

    Raises:
        ServiceError: Debian's packages cannot be had.
    """
    for name in _PROGRAMS:
        if found := shutil.which(name):
            return Chromium(Path(found), {**os.environ})
    folder = obtain("chromium", _make)
    libraries = ":".join(str(folder / path) for path in _LIBRARIES)
    env = {
        **os.environ,
        "LD_LIBRARY_PATH": libraries,
        "FONTCONFIG_FILE": str(folder / "fonts.conf"),
    }
    return Chromium(folder / "usr/lib/chromium/chromium-headless-shell", env)


def _make(folder: Path) -> None:
    with step("Chromium: download"):
        unpack(_PACKAGES, suite=_SUITE, folder=folder)
    for libraries in _LIBRARIES:
        for pattern in _MACHINES:
            for file in (folder / libraries).glob(pattern):
                file.unlink()
    # The folder is renamed when it is complete.
    final = folder.with_name("chromium")
    (folder / "fonts.conf").write_text(_FONTS.format(folder=final))
