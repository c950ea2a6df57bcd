"""Logins: what shows the password, or has no end, is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.errors import (
    AccessDeniedError,
    BinlogError,
    ConfigurationError,
    ConnectionLostError,
    FormatError,
    SourceError,
)
from tests.support.fake_server import FakeServer, Session, error, greeting
from tests.unit.transport.server.answers import PASSWORD, log_in, settings_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Script = Callable[[Session], None]

SWITCH = b"\xfe%s\0" + b"s" * 20 + b"\0"


def switching(plugin: bytes, *replies: bytes) -> Script:
    """Return a script that asks for another plugin, and then sends packets."""

    def script(client: Session) -> None:
        client.greet()
        client.packet(SWITCH % plugin)
        for reply in replies:
            client.read()
            client.packet(reply)
        client.read()
        client.packet(error(1045, "Access denied for user"))

    return script


@pytest.mark.parametrize("plugin", [b"mysql_clear_password", b"dialog", b"mysql_old_password"])
def test_without_tls_the_password_is_not_sent_in_clear_text(plugin: bytes) -> None:
    with FakeServer(switching(plugin)) as server:
        with pytest.raises(ConfigurationError, match="enable_cleartext_plugin") as caught:
            settings_of(server).connect()
        (session,) = server.sessions

    assert caught.value.context["plugin"] == plugin.decode()
    assert PASSWORD not in str(caught.value)
    assert len(session.received) == 1
    assert PASSWORD.encode() not in session.received[0]


def test_it_is_sent_in_clear_text_where_that_is_allowed() -> None:
    with FakeServer(switching(b"mysql_clear_password")) as server:
        with pytest.raises(AccessDeniedError):
            settings_of(server, enable_cleartext_plugin=True).connect()
        (session,) = server.sessions

    assert session.received[1] == PASSWORD.encode() + b"\0"


KEY = b"-----BEGIN PUBLIC KEY-----\nserver\n-----END PUBLIC KEY-----\n"
FULL_AUTHENTICATION = b"\x01\x04"


@pytest.mark.parametrize(
    "script",
    [
        switching(b"caching_sha2_password", FULL_AUTHENTICATION, b"\x01" + KEY),
        switching(b"sha256_password", b"\x01" + KEY),
    ],
)
def test_the_password_is_not_encrypted_with_a_key_that_the_server_sends(script: Script) -> None:
    with FakeServer(script) as server:
        with pytest.raises(ConfigurationError, match="get_server_public_key"):
            settings_of(server).connect()
        (session,) = server.sessions

    assert all(len(packet) <= 32 for packet in session.received[1:])  # no RSA: that is longer


def test_the_configured_key_is_the_one_that_encrypts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[bytes] = []

    def encrypt(password: bytes, salt: bytes, key: bytes) -> bytes:
        used.append(key)
        return b"encrypted"

    monkeypatch.setattr("pymysql._auth.sha2_rsa_encrypt", encrypt)
    (tmp_path / "known.pem").write_bytes(b"known")
    key = {"server_public_key_path": str(tmp_path / "known.pem")}
    full = switching(b"caching_sha2_password", FULL_AUTHENTICATION)
    for script, options in (
        (full, key),
        (switching(b"sha256_password", b"\x01" + KEY), key),
        (full, {"get_server_public_key": True} | key),
        (
            switching(b"caching_sha2_password", FULL_AUTHENTICATION, b"\x01" + KEY),
            {"get_server_public_key": True},
        ),
    ):
        with FakeServer(script) as server, pytest.raises(AccessDeniedError):
            settings_of(server, **options).connect()

    assert used == [b"known"] * 4 + [KEY]


def test_a_cached_entry_needs_no_key() -> None:
    def script(client: Session) -> None:
        client.greet()
        client.packet(b"\x01\x03")
        client.let_in()

    assert log_in(script).sessions


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        (lambda client: client.raw(b"HTTP/1.1 400 Bad Request\r\n\r\n"), BinlogError),
        (lambda client: client.packet(b""), FormatError),
        (lambda client: client.packet(b"\x0a9.7.0\0abc"), FormatError),
        (lambda client: client.packet(b"\x0anot a version\0" + bytes(60)), FormatError),
        (lambda client: client.packet(greeting(b"\xff\xfe")), FormatError),
        (lambda client: client.greet() and client.packet(b"\x01"), FormatError),
        (lambda client: client.greet() and client.packet(b"\xff"), FormatError),
        (lambda client: client.greet() and client.raw(b"\x01\0\0\x09\0"), SourceError),
        (lambda client: client.packet(error(1040, "Too many connections")), ConnectionLostError),
        (lambda client: client.packet(error(1045, "Access denied")), AccessDeniedError),
        (lambda client: client.packet(greeting(b"dialog")[:9]), FormatError),
        (lambda client: None, ConnectionLostError),
    ],
)
def test_what_is_no_login_is_refused(script: Script, kind: type[BinlogError]) -> None:
    with FakeServer(script) as server, pytest.raises(kind) as caught:
        settings_of(server).connect()

    assert caught.value.context["server"] == f"127.0.0.1:{server.port}"
    assert PASSWORD not in str(caught.value)


def test_a_greeting_without_end_is_refused_at_its_length() -> None:
    def endless(client: Session) -> None:
        while True:
            client.raw(b"\xff\xff\xff" + bytes([client.sequence % 256]) + bytes(0xFFFFFF))
            client.sequence += 1

    with FakeServer(endless) as server, pytest.raises(FormatError, match="more than a login"):
        settings_of(server).connect()


def test_a_login_without_end_is_refused() -> None:
    def endless(client: Session) -> None:
        client.greet()
        client.packet(b"\xfedialog\0\x02Password: ")
        while client.read():
            client.packet(b"\x02Password: ")

    with FakeServer(endless) as server, pytest.raises(FormatError, match="more than a login"):
        settings_of(server, enable_cleartext_plugin=True).connect()


def test_a_plugin_that_the_driver_lacks_is_named() -> None:
    with FakeServer(switching(b"parsec")) as server, pytest.raises(SourceError) as caught:
        settings_of(server).connect()

    assert "parsec" in str(caught.value)
    assert not caught.value.retryable


@pytest.mark.parametrize("ssl_mode", ["required", "verify_ca", "verify_identity"])
def test_a_way_that_strips_tls_gets_no_login(ssl_mode: str) -> None:
    with FakeServer(switching(b"mysql_native_password")) as server:
        with pytest.raises(ConfigurationError, match="has no TLS"):
            settings_of(server, ssl_mode=ssl_mode).connect()
        (session,) = server.sessions

    assert session.received == []


@pytest.mark.parametrize("ssl_mode", ["preferred", "required"])
def test_no_certificates_are_read_where_none_are_verified(
    ssl_mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr("ssl.create_default_context", fail)
    with FakeServer(lambda client: None) as server, pytest.raises(ConnectionLostError):
        settings_of(server, ssl_mode=ssl_mode).connect()


def test_a_refused_login_shows_no_traceback_of_the_driver() -> None:
    refuse = switching(b"mysql_native_password")
    with FakeServer(refuse) as server, pytest.raises(AccessDeniedError) as caught:
        settings_of(server).connect()

    assert caught.value.__suppress_context__
