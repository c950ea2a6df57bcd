"""Certificates of another server, and connections whose TLS breaks, get no login."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.errors import ConfigurationError, ConnectionLostError
from airflow_provider_binlog.sources.settings import ConnectionSettings
from tests.support.certificates import Authority
from tests.support.fake_server import FakeServer, Session, greeting

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from ssl import SSLContext

PASSWORD = "geheim-7"
HOST = "localhost"


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> tuple[Authority, Authority]:
    """The authority that the client trusts, and another one."""
    folder = tmp_path_factory.mktemp("certificates")
    (folder / "other").mkdir()
    return Authority(folder, "ours"), Authority(folder / "other", "other")


def connect(context: SSLContext, **options: Any) -> list[bytes]:
    """Log in at a server that presents a certificate; return the packets that it received."""

    def script(client: Session) -> None:
        client.greet_with_tls(context)
        client.let_in()

    with FakeServer(script) as server:
        settings = ConnectionSettings(
            HOST, server.port, "replica", PASSWORD, read_timeout=5, **options
        )
        with closing(settings.connect()):
            return server.sessions[0].received


Pair = tuple[Authority, Authority]
FOREIGN: list[tuple[str, Callable[[Pair], SSLContext], set[str], str]] = [
    ("own", lambda of: of[0].context(HOST), set(), ""),
    (
        "of another authority",
        lambda of: of[1].context(HOST),
        {"verify_ca", "verify_identity"},
        "unable to get local issuer certificate",
    ),
    (
        "of another host",
        lambda of: of[0].context("db.example.com"),
        {"verify_identity"},
        "Hostname mismatch",
    ),
    (
        "expired",
        lambda of: of[0].context(HOST, days=(-7, -1)),
        {"verify_ca", "verify_identity"},
        "certificate has expired",
    ),
]


@pytest.mark.parametrize("ssl_mode", ["preferred", "required", "verify_ca", "verify_identity"])
@pytest.mark.parametrize(
    ("make", "refused", "reason"), [each[1:] for each in FOREIGN], ids=[each[0] for each in FOREIGN]
)
def test_a_foreign_certificate_gets_no_login(
    authorities: Pair,
    make: Callable[[Pair], SSLContext],
    refused: set[str],
    reason: str,
    ssl_mode: str,
) -> None:
    options = {"ssl_mode": ssl_mode}
    if ssl_mode.startswith("verify"):
        options["ssl_ca"] = str(authorities[0].file)
    if ssl_mode not in refused:
        assert b"replica" in connect(make(authorities), **options)[1]
        return
    with pytest.raises(ConfigurationError, match="certificate does not hold") as caught:
        connect(make(authorities), **options)

    assert reason in str(caught.value)
    assert not caught.value.retryable
    assert PASSWORD not in str(caught.value)


def test_the_machines_own_authorities_do_not_know_it(authorities: Pair) -> None:
    with pytest.raises(ConfigurationError, match="certificate does not hold"):
        connect(authorities[0].context(HOST), ssl_mode="verify_ca")


@pytest.mark.parametrize("reply", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes(40)])
def test_tls_that_breaks_is_a_lost_connection(tmp_path: Path, reply: bytes) -> None:
    def script(client: Session) -> None:
        client.packet(greeting(b"caching_sha2_password", capabilities=0x2A_AA00))
        client.read()
        client.raw(reply)

    with FakeServer(script) as server:
        settings = ConnectionSettings(HOST, server.port, ssl_mode="required", read_timeout=5)
        with pytest.raises(ConnectionLostError):
            settings.connect()
        assert len(server.sessions[0].received) == 1
