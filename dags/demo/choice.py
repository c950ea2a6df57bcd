"""What the user chose: the variables of `make demo`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.services.progress import ServiceError

if TYPE_CHECKING:
    from collections.abc import Mapping

_ALLOWED = {
    "TARGET": ("delta", "iceberg", "postgresql"),
    "SERVER": ("mysql", "mariadb"),
    "STORE": ("file", "s3"),
}
_RELEASES = {"mysql": "mysql97", "mariadb": "mariadb1011"}


@dataclass(frozen=True)
class Choice:
    """What the demo runs on.

    Attributes:
        target: Format of the lake tables, `delta`, `iceberg` or `postgresql`.
        server: Family of the server that is started, `mysql` or `mariadb`.
        store: Where files and tables lie, `file` or `s3`.
        dsn: The user's own server in place of one that is started; None for none.
    """

    target: str = "delta"
    server: str = "mysql"
    store: str = "file"
    dsn: str | None = None

    @property
    def release(self) -> str:
        """The server to start, as `tests.services` names it."""
        return _RELEASES[self.server]

    @property
    def database(self) -> str:
        """The database that is made; on a user's server its name says what it is."""
        return "binlog_demo_shop" if self.dsn else "shop"


def read_choice(environment: Mapping[str, str]) -> Choice:
    """Return what the environment says; an empty variable is one that is not set.

    Raises:
        ServiceError: A variable has a value that is not one of the choices.
    """
    for name, allowed in _ALLOWED.items():
        if (value := environment.get(name)) and value not in allowed:
            message = f"{name} is one of {', '.join(allowed)}, not {value}"
            raise ServiceError(message)
    standard = Choice()
    return Choice(
        target=environment.get("TARGET") or standard.target,
        server=environment.get("SERVER") or standard.server,
        store=environment.get("STORE") or standard.store,
        dsn=environment.get("SERVER_DSN") or None,
    )


def says_anything(environment: Mapping[str, str]) -> bool:
    """Whether the user chose anything at all."""
    return any(environment.get(name) for name in (*_ALLOWED, "SERVER_DSN"))
