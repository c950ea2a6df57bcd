"""How the driver reaches PostgreSQL: which fields there are, and a file that is read once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.spark.target.postgresql.settings import PostgresSettings

if TYPE_CHECKING:
    from pathlib import Path

FIELDS: dict[str, Any] = {
    "host": "db",
    "port": None,
    "database": "dwh",
    "login": "merge",
    "password": "secret",
    "extra": {"sslmode": "verify-full", "target_session_attrs": "read-write"},
}


def test_the_file_is_for_one_account_and_read_once(tmp_path: Path) -> None:
    settings, file = PostgresSettings.from_fields(**FIELDS), tmp_path / "connection.json"
    settings.write(file)

    assert file.stat().st_mode & 0o777 == 0o600
    assert PostgresSettings.take(file) == settings
    assert settings.port == 5432
    assert settings.properties == {"sslmode": "verify-full", "targetServerType": "primary"}
    assert "secret" not in repr(settings)
    with pytest.raises(ConfigurationError, match="deploy mode client"):
        PostgresSettings.take(file)


@pytest.mark.parametrize(
    "fields",
    [
        {"database": None},
        {"login": ""},
        {"extra": {"sslmod": "require"}},
        {"extra": {"target_session_attrs": "standby"}},
    ],
)
def test_fields_that_cannot_be_used_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        PostgresSettings.from_fields(**(FIELDS | fields))
