"""A case of the corpus: the statements that made it, the logs, and what the server said."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from airflow_provider_binlog.position import Flavor, Position

FOLDER = Path(__file__).parent
LOGS = FOLDER / "logs"
SERVERS = ("mysql97", "mysql80", "mariadb1011", "mariadb118")

_HEADER = re.compile(r"-- (\w+): (.*)")


@dataclass(frozen=True)
class Case:
    """One file of `cases/`: a comment, headers, statements.

    Attributes:
        name: The file's name.
        servers: The servers that write it.
        globals_: Global variables that it is written under.
        select: What the server is queried for, after SELECT, of the table `t`; `id` is its key.
        refused: What the error says that reading it ends with; None: it is read.
        fails: The server's error that statements may end with; 0: none.
        show: How texts are shown, where they are not compared as they are.
        columns: So many columns `c0`, `c1` ... has the table, which is then made for the case.
        statements: One after another, in one session.
    """

    name: str
    servers: tuple[str, ...]
    globals_: dict[str, str]
    select: str
    refused: str | None
    fails: int
    show: str
    columns: int
    statements: tuple[str, ...]

    @classmethod
    def read(cls, path: Path) -> Case:
        """Read a case."""
        text = path.read_text()
        headers = dict(_HEADER.findall(text))
        body = re.sub(r"(?m)^-- .*\n", "", text)
        statements = [each.strip() for each in re.split(r";\n", body) if each.strip()]
        columns = int(headers.get("columns", 0))
        if columns:
            named = ", ".join(f"c{number} INT" for number in range(columns))
            statements.insert(0, f"CREATE TABLE t (id INT PRIMARY KEY, {named})")
        return cls(
            name=path.stem,
            servers=tuple(headers.get("servers", " ".join(SERVERS)).split()),
            globals_=dict(each.split("=") for each in headers.get("global", "").split()),
            select=headers["select"],
            refused=headers.get("refused"),
            fails=int(headers.get("fails", 0)),
            show=headers.get("show", ""),
            columns=columns,
            statements=tuple(statements),
        )

    def shown(self, value: Any) -> str | None:
        """Return a staged value as the case's SELECT prints it."""
        if self.show == "sha256" and isinstance(value, str):
            return hashlib.sha256(value.encode()).hexdigest()
        for kind, show in _SHOWN.items():
            if isinstance(value, kind):
                return show(value)
        return None if value is None else str(value)


# In this order: every datetime is a date too.
_SHOWN: dict[type, Callable[[Any], str]] = {
    datetime: lambda value: f"{value.year:04}-{value:%m-%d %H:%M:%S.%f}",
    date: lambda value: f"{value.year:04}-{value:%m-%d}",
    Decimal: lambda value: f"{value:f}",
    bool: lambda value: str(int(value)),
    bytes: lambda value: value.hex().upper(),
    list: lambda value: "[" + ",".join(f"{each:.5e}" for each in value) + "]",
}


@dataclass(frozen=True)
class Recorded:
    """A case as one server wrote it.

    Attributes:
        case: The case.
        server: The kind of server.
    """

    case: Case
    server: str

    def __str__(self) -> str:
        """Return a name for the test."""
        return f"{self.case.name}-{self.server}"

    @property
    def folder(self) -> Path:
        """Where its files lie."""
        return LOGS / self.case.name / self.server

    @property
    def files(self) -> list[Path]:
        """Its binlog files, in order."""
        return sorted(self.folder.glob(f"binlog.{'[0-9]' * 6}"))

    @property
    def flavor(self) -> Flavor:
        """The server's family."""
        return Flavor.MARIADB if self.server.startswith("mariadb") else Flavor.MYSQL

    @property
    def end(self) -> Position:
        """Where its last file ends."""
        last = self.files[-1]
        return Position(last.name, last.stat().st_size)

    @property
    def expected(self) -> dict[str, Any]:
        """What the server said: `rows`, `defaults` and `events`."""
        found: dict[str, Any] = json.loads((self.folder / "expected.json").read_text())
        return found


def cases() -> list[Case]:
    """Return all cases, by name."""
    return [Case.read(path) for path in sorted((FOLDER / "cases").glob("*.sql"))]


def recorded() -> list[Recorded]:
    """Return what was recorded of all cases."""
    return [Recorded(case, server) for case in cases() for server in case.servers]
