"""ConnectionSettings: the fields of a connection are read, or refused by name."""

from __future__ import annotations

from typing import Any

import pymysql
import pytest

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.sources.settings import ConnectionSettings


def from_extra(**extra: Any) -> ConnectionSettings:
    return ConnectionSettings.from_fields(
        host="db", port=3307, login="replica", password="secret", extra=extra
    )


def test_an_address_says_what_a_connection_says() -> None:
    dsn = (
        "mysql://replica:secret@db:3307/?ssl_mode=verify-ca&ssl_ca=/ca.pem&server_id=7"
        "&read_timeout=5&get_server_public_key=true&enable_cleartext_plugin=0"
    )

    assert ConnectionSettings.from_dsn(dsn) == from_extra(
        ssl_mode="VERIFY_CA",
        ssl_ca="/ca.pem",
        server_id=7,
        read_timeout=5,
        get_server_public_key=True,
    )


def test_each_task_draws_an_id_of_a_range_that_an_administrator_hands_out() -> None:
    drawn = {from_extra(server_id="5400 - 5402").server_id for _ in range(200)}

    assert drawn == {5400, 5401, 5402}
    assert from_extra(server_id="5400-5400").server_id == from_extra(server_id="5400").server_id


def test_user_and_password_are_percent_encoded_in_an_address() -> None:
    settings = ConnectionSettings.from_dsn("mariadb://a%40b:p%3A%2F%C3%A9@[::1]")

    assert (settings.user, settings.password, settings.host) == ("a@b", "p:/é", "::1")
    assert settings.port == 3306


def test_empty_fields_of_the_form_are_as_if_not_given() -> None:
    assert (
        from_extra(ssl_mode=None, ssl_ca="", server_id=None, connect_timeout=None) == from_extra()
    )


def test_secrets_are_not_shown() -> None:
    assert "secret" not in repr(from_extra())
    assert "pepper" not in repr(from_extra(hash_secret="pepper"))


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        ({"ssl": True}, "called ssl:"),
        ({"ssl_mode": "maybe"}, "ssl_mode"),
        ({"server_id": 0}, "server_id"),
        ({"server_id": 2**32}, "server_id"),
        ({"server_id": "7-6"}, "a range whose first id is the least"),
        ({"server_id": f"7-{2**32}"}, "server_id"),
        ({"server_id": "-7"}, "server_id"),
        ({"read_timeout": "long"}, "read_timeout"),
        ({"connect_timeout": -1}, "connect_timeout"),
        ({"get_server_public_key": "perhaps"}, "get_server_public_key is true or false"),
        ({"hash_secret": 12345}, "hash_secret is a text: write it in quotes$"),
    ],
)
def test_what_cannot_be_used_is_named(extra: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        from_extra(**extra)


@pytest.mark.parametrize("dsn", ["http://db", "db:3306", "mysql://db:port", "mysql://[::1"])
def test_what_is_no_address_is_refused(dsn: str) -> None:
    with pytest.raises(ConfigurationError, match="not an address"):
        ConnectionSettings.from_dsn(dsn)


def test_tls_files_that_cannot_be_read_are_named() -> None:
    settings = from_extra(ssl_mode="required", ssl_ca="/nowhere/ca.pem")

    with pytest.raises(ConfigurationError, match=r"/nowhere/ca\.pem"):
        settings.connect()


def test_a_public_key_that_cannot_be_read_is_named() -> None:
    settings = from_extra(server_public_key_path="/nowhere/key.pem")

    with pytest.raises(ConfigurationError, match=r"/nowhere/key\.pem"):
        settings.connect()


def test_an_old_driver_does_not_log_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would in clear text, where TLS is required and the server has none."""
    monkeypatch.setattr(pymysql, "VERSION", (1, 1, 3, "final", 1))

    with pytest.raises(ConfigurationError, match=r"install 1\.2\.1 or later"):
        ConnectionSettings.from_dsn("mysql://root@127.0.0.1:1").connect()
