"""Logins as MySQL's own clients make them: a password is sent under TLS, or under a known key."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.errors import AccessDeniedError, ConfigurationError
from airflow_provider_binlog.sources.settings import ConnectionSettings
from airflow_provider_binlog.transport.server.driver import query
from tests.fixtures import mysql

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.services.servers import Server

pytestmark = pytest.mark.server

USER, PASSWORD = "logs_in", "pässword/:@"


@pytest.fixture
def account(mysql97: Server) -> Iterator[Server]:
    """A server with an account that has a password, and none in its cache of passwords."""
    mysql.execute(
        mysql97,
        f"CREATE USER '{USER}'@'%' IDENTIFIED WITH caching_sha2_password BY '{PASSWORD}'",
        "FLUSH PRIVILEGES",
    )
    yield mysql97
    mysql.execute(mysql97, f"DROP USER '{USER}'@'%'")


def log_in(server: Server, **fields: Any) -> str:
    """Log in, and return the cipher of TLS; empty without it."""
    options: dict[str, Any] = {"ssl_mode": "disabled", "password": PASSWORD} | fields
    settings = ConnectionSettings(server.host, server.port, USER, **options)
    with closing(settings.connect()) as connection:
        return str(query(connection, "SHOW SESSION STATUS LIKE 'Ssl_cipher'")[0]["Value"])


def test_without_tls_the_key_must_be_known_until_the_server_has_a_cached_entry(
    account: Server,
) -> None:
    with pytest.raises(ConfigurationError, match="get_server_public_key") as caught:
        log_in(account)
    assert caught.value.context["user"] == USER

    key = {"server_public_key_path": str(account.data / "public_key.pem")}
    assert log_in(account, **key) == ""
    assert log_in(account) == ""  # from the cache

    mysql.execute(account, "FLUSH PRIVILEGES")
    assert log_in(account, get_server_public_key=True) == ""


def test_under_tls_and_over_a_socket_no_key_is_needed(account: Server) -> None:
    assert log_in(account, ssl_mode="preferred")

    mysql.execute(account, "FLUSH PRIVILEGES")
    assert log_in(account, unix_socket=str(account.socket)) == ""


def test_a_wrong_password_is_refused(account: Server) -> None:
    with pytest.raises(AccessDeniedError, match="Access denied"):
        log_in(account, ssl_mode="required", password="wrong")
