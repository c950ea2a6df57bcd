"""How the driver of a merge reaches PostgreSQL: a file beside the task, read once and deleted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.stored_json import StoredFormat

DRIVER = "org.postgresql.Driver"
"""The JDBC driver, of the package org.postgresql:postgresql."""

_STORED = StoredFormat(
    "airflow-provider-binlog/postgresql", 1, "a PostgreSQL connection", ConfigurationError
)
_PORT = 5432
# libpq's names, which Airflow's connections have, and the driver's.
_PROPERTIES = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslpassword": "sslpassword",
    "options": "options",
    "target_session_attrs": "targetServerType",
}
_SESSIONS = {"read-write": "primary", "any": "any", "primary": "primary"}


@dataclass(frozen=True)
class PostgresSettings:
    """Where a database is, and whom to be there.

    Attributes:
        properties: More properties of the JDBC driver, `sslmode` for example.
    """

    host: str
    port: int
    database: str
    user: str
    password: str = field(repr=False)
    properties: dict[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def from_fields(
        cls,
        *,
        host: str | None,
        port: int | None,
        database: str | None,
        login: str | None,
        password: str | None,
        extra: Mapping[str, Any],
    ) -> PostgresSettings:
        """Return the fields of an Airflow connection of type `postgres`, checked."""
        missing = [
            name
            for name, value in (("host", host), ("schema", database), ("login", login))
            if not value
        ]
        if missing:
            raise ConfigurationError(
                "the connection of a PostgreSQL database has host, schema (the database), login "
                "and password",
                missing=", ".join(missing),
            )
        if unknown := sorted(extra.keys() - _PROPERTIES):
            raise ConfigurationError(
                f"the extra of a PostgreSQL connection may hold {', '.join(_PROPERTIES)}",
                unknown=", ".join(unknown),
            )
        properties = {_PROPERTIES[name]: str(value) for name, value in extra.items()}
        if "targetServerType" in properties:
            sessions = properties["targetServerType"]
            if sessions not in _SESSIONS:
                raise ConfigurationError(
                    "target_session_attrs is read-write, primary or any", given=sessions
                )
            properties["targetServerType"] = _SESSIONS[sessions]
        return cls(
            host or "", port or _PORT, database or "", login or "", password or "", properties
        )

    def write(self, file: Path) -> None:
        """Write a file that only this account may read."""
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
            opened.write(_STORED.encode(self))

    @classmethod
    def take(cls, file: Path) -> PostgresSettings:
        """Return what `write` wrote, and delete the file.

        Raises:
            ConfigurationError: It is not there, or not of this version.
        """
        try:
            data = file.read_bytes()
            file.unlink()
        except OSError as error:
            raise ConfigurationError(
                "the file of the PostgreSQL connection is not there: submit with the deploy mode "
                "client, so that the driver runs beside the task",
                file=file,
            ) from error
        return _STORED.decode(cls, data)
