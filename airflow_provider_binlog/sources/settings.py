"""Connection settings of a server: checked fields, and the connections of one task.

A proxy or a DNS name may lead to another server each time: positions of the one would be compared
with the other's log, and rows of both be committed under one identity.
"""

from __future__ import annotations

import json
import secrets
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pymysql

from airflow_provider_binlog.errors import ConfigurationError, ServerChangedError
from airflow_provider_binlog.position import SourceIdentity
from airflow_provider_binlog.transport.server import driver, queries

DSN_SCHEMES = ("binlog", "mysql", "mariadb")
SSL_MODES = ("disabled", "preferred", "required", "verify_ca", "verify_identity")

_DEFAULT_PORT = 3306
_TIMEOUT_MAX_SECONDS = 31_536_000
_NUMBERS_MAX = {
    "connect_timeout": _TIMEOUT_MAX_SECONDS,
    "read_timeout": _TIMEOUT_MAX_SECONDS,
    "query_timeout": _TIMEOUT_MAX_SECONDS,
    "server_id": 2**32 - 1,
}

_SWITCHES = ("get_server_public_key", "enable_cleartext_plugin")
_SWITCHED = {"true": True, "1": True, "on": True, "false": False, "0": False, "off": False}

_LIFT_LIMITS = (
    "SET SESSION sql_select_limit = 18446744073709551615, sql_big_selects = 1, completion_type = 0"
    "/*!50708 , max_execution_time = 0 *//*M!100101 , max_statement_time = 0 */"
)
"""A server may limit what sessions read: the rows of a SELECT, without an error, those that it
examines, and its time. It may end a session with its transaction.

MySQL executes the first comment alone, MariaDB the second alone.
"""

_PYMYSQL_MIN = (1, 2, 1)
"""Older ones log in in clear text where TLS is required and the server has none.

What installs this package knows; the Python of Spark's executors may have any.
"""

_SECURE_TRANSPORT_REQUIRED = 3159  # the server's
_NO_TLS = 2026  # PyMySQL's, CR_SSL_CONNECTION_ERROR


@dataclass(frozen=True)
class ConnectionSettings:
    """Address, account and encryption of a connection to a server.

    Attributes:
        ssl_mode: One of `SSL_MODES`, as the mysql client means them.
        ssl_ca, ssl_cert, ssl_key: Paths of PEM files.
        server_public_key_path: Of a PEM file; the key encrypts the password without TLS.
        get_server_public_key: Whether a key that the server itself sends may do that.
        enable_cleartext_plugin: Whether the password may be sent in clear text without TLS.
        connect_timeout, read_timeout, query_timeout: Seconds; see `ServerConnection`.
        server_id: What we register as, drawn where the connection has a range of them; None draws
            one for each stream.
        hash_secret: With which values of columns are hashed; empty for none.
    """

    host: str
    port: int = _DEFAULT_PORT
    user: str = ""
    password: str = field(default="", repr=False)
    unix_socket: str | None = None
    ssl_mode: str = "preferred"
    ssl_ca: str | None = None
    ssl_cert: str | None = None
    ssl_key: str | None = None
    server_public_key_path: str | None = None
    get_server_public_key: bool = False
    enable_cleartext_plugin: bool = False
    connect_timeout: int = 10
    read_timeout: int = 60
    query_timeout: int = 600
    server_id: int | None = None
    hash_secret: str = field(default="", repr=False)

    @classmethod
    def from_fields(
        cls,
        *,
        host: str | None,
        port: int | None,
        login: str | None,
        password: str | None,
        extra: Mapping[str, Any],
    ) -> ConnectionSettings:
        """Check the fields of a connection; `extra` holds the rest by the names used here."""
        known = {field.name for field in fields(cls)} - {"host", "port", "user", "password"}
        if unknown := sorted(set(extra) - known):
            raise ConfigurationError(
                f"no field of a connection's extra is called {unknown[0]}: "
                f"there are {', '.join(sorted(known))}"
            )
        given = {name: value for name, value in extra.items() if value not in (None, "")}
        ssl_mode = str(given.get("ssl_mode", "preferred")).lower().replace("-", "_")
        if ssl_mode not in SSL_MODES:
            raise ConfigurationError(f"ssl_mode is one of {', '.join(SSL_MODES)}", given=ssl_mode)
        if "server_id" in given:
            given["server_id"] = _draw_server_id(str(given["server_id"]))
        for name in _NUMBERS_MAX.keys() & given.keys():
            given[name] = _integer(name, given[name])
        for name in set(_SWITCHES) & given.keys():
            given[name] = _switch(name, given[name])
        if not isinstance(given.get("hash_secret", ""), str):
            raise ConfigurationError("hash_secret is a text: write it in quotes")
        return cls(
            host=host or "localhost",
            port=port or _DEFAULT_PORT,
            user=login or "",
            password=password or "",
            **given | {"ssl_mode": ssl_mode},
        )

    @classmethod
    def from_dsn(cls, dsn: str) -> ConnectionSettings:
        """Read `mysql://user:password@host:port/?ssl_mode=required`.

        User and password are percent-encoded where they hold one of `:/?#[]@%`; the query holds
        what a connection keeps in its extra.
        """
        try:
            parts = urlsplit(dsn)
            port = parts.port
        except ValueError:
            # Not with the error's text or as its cause: what it quotes may be of the password.
            raise ConfigurationError(
                "not an address of a server: in the user and the password, characters such as "
                "/ ? # @ [ ] are percent-encoded, and the port is a number"
            ) from None
        if parts.scheme not in DSN_SCHEMES:
            raise ConfigurationError(
                "not an address of a server: it starts with mysql:// or mariadb://"
            )
        return cls.from_fields(
            host=unquote(parts.hostname) if parts.hostname else None,
            port=port,
            login=unquote(parts.username) if parts.username else None,
            password=unquote(parts.password) if parts.password else None,
            extra=dict(parse_qsl(parts.query, keep_blank_values=True)),
        )

    @property
    def address(self) -> str:
        """Address for people: `host:port` or the socket's path."""
        return self.unix_socket or f"{self.host}:{self.port}"

    def connect(self) -> driver.Connection:
        """Return a new connection; the caller closes it.

        Raises:
            AccessDeniedError: The server refuses the account, its password or this host.
            ConfigurationError: PyMySQL is too old, the TLS files cannot be read, the certificate
                does not hold, the server wants TLS, or asks for the password in a way that is not
                allowed.
            ConnectionLostError: The server was not reached, or has no room now.
            FormatError: What answers is no MySQL or MariaDB server.
        """
        if tuple(map(int, pymysql.VERSION[:3])) < _PYMYSQL_MIN:
            raise ConfigurationError(
                f"PyMySQL is too old here: install {'.'.join(map(str, _PYMYSQL_MIN))} or later",
                found=pymysql.VERSION_STRING,
            )
        key, context = self._server_public_key(), self._ssl_context()
        with driver.driver_errors(server=self.address, user=self.user):
            try:
                return driver.ServerConnection(
                    host=self.host,
                    port=self.port,
                    unix_socket=self.unix_socket,
                    user=self.user,
                    # As bytes: PyMySQL encodes text in latin1, accounts hold UTF-8.
                    password=self.password.encode(),
                    charset="utf8mb4",
                    autocommit=True,
                    init_command=_LIFT_LIMITS,
                    connect_timeout=self.connect_timeout,
                    read_timeout=self.read_timeout,
                    query_timeout=self.query_timeout,
                    server_public_key=key,
                    get_server_public_key=self.get_server_public_key,
                    enable_cleartext_plugin=self.enable_cleartext_plugin,
                    program_name="airflow-provider-binlog",
                    ssl_disabled=self.ssl_mode == "disabled",
                    ssl=context,
                )
            except pymysql.MySQLError as error:
                self._check_tls(error)
                raise
            except RuntimeError as error:  # PyMySQL asks for the package `cryptography` by this
                raise ConfigurationError(str(error)) from error

    def _server_public_key(self) -> bytes | None:
        if self.server_public_key_path is None:
            return None
        try:
            return Path(self.server_public_key_path).read_bytes()
        except OSError as error:
            raise ConfigurationError(
                f"cannot read the server's public key: {error}", file=self.server_public_key_path
            ) from error

    def _ssl_context(self) -> ssl.SSLContext | None:
        """Return what the mode asks for; None leaves it to PyMySQL: TLS if the server offers it."""
        if self.ssl_mode == "disabled":
            return None
        if self.ssl_mode == "preferred" and not (self.ssl_ca or self.ssl_cert):
            return None
        if self.ssl_mode == "required" and not (self.ssl_ca or self.ssl_cert):
            return driver.unverified_context()
        try:
            context = ssl.create_default_context(cafile=self.ssl_ca)
            if self.ssl_cert:
                context.load_cert_chain(self.ssl_cert, self.ssl_key)
        except OSError as error:  # ssl.SSLError is one
            files = [name for name in (self.ssl_ca, self.ssl_cert, self.ssl_key) if name]
            raise ConfigurationError(
                f"cannot read the TLS files: {error}", files=", ".join(files)
            ) from error
        # The certificates that MySQL makes for itself lack what Python 3.13 asks for.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.check_hostname = self.ssl_mode == "verify_identity"
        if self.ssl_mode in ("preferred", "required"):
            context.verify_mode = ssl.CERT_NONE
        return context

    def _check_tls(self, error: Exception) -> None:
        cause = getattr(error, "original_exception", None) or error.__cause__
        if isinstance(cause, ssl.SSLCertVerificationError):
            raise ConfigurationError(
                f"the server's certificate does not hold: {cause.verify_message}",
                ssl_mode=self.ssl_mode,
            ) from error
        if error.args and error.args[0] == _NO_TLS:
            raise ConfigurationError(
                "the server has no TLS: mend that, or set ssl_mode to preferred",
                ssl_mode=self.ssl_mode,
            ) from error
        if error.args and error.args[0] == _SECURE_TRANSPORT_REQUIRED:
            raise ConfigurationError(
                "the server wants TLS: set ssl_mode to required", ssl_mode=self.ssl_mode
            ) from error


def _draw_server_id(given: str) -> str | int:
    """Return one id of a range such as `5400-5499`; what is no range as it is."""
    first, dash, last = map(str.strip, given.partition("-"))
    if not dash or not first:
        return given
    ids = range(_integer("server_id", first), _integer("server_id", last) + 1)
    if not ids:
        raise ConfigurationError("server_id is a range whose first id is the least", given=given)
    return secrets.choice(ids)


def _integer(name: str, given: Any) -> int:
    largest = _NUMBERS_MAX[name]
    try:
        value = int(given)
    except (TypeError, ValueError):
        value = 0
    if not 1 <= value <= largest:
        raise ConfigurationError(f"{name} is a number from 1 to {largest}", given=given)
    return value


def _switch(name: str, given: Any) -> bool:
    value = _SWITCHED.get(str(given).lower())
    if value is None:
        raise ConfigurationError(f"{name} is true or false", given=given)
    return value


class Connections:
    """Opens connections to one server, the one that the first of them leads to."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self.settings = settings
        self._server: SourceIdentity | None = None

    def open(self) -> driver.Connection:
        """Return a new connection, checked; the caller closes it."""
        connection = self.settings.connect()
        try:
            self.check(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def check(self, connection: driver.Connection) -> None:
        """Refuse a connection that leads to another server than the ones before.

        Raises:
            ServerChangedError: It does.
            ServerSetupError: The server writes no binary log.
        """
        here = queries.identify(connection)
        if self._server is None:
            self._server = here
        elif here != self._server:
            raise ServerChangedError(
                "the address leads to another server than it did a moment ago: after a failover "
                "the next try reads from that one alone, but a proxy that balances over several "
                "servers cannot be read through; connect to one server",
                address=self.settings.address,
                before=self._server,
                now=here,
            )


@dataclass(frozen=True)
class Location:
    """A folder or a file as a process on another machine reaches it.

    Attributes:
        protocol: Names the file system in fsspec.
        path: On that file system.
        options: Arguments of the file system as JSON, credentials included.
    """

    protocol: str
    path: str
    options: str = field(default="{}", repr=False)

    def open(self) -> tuple[Any, str]:
        """Return the file system, and the path."""
        # Here: the driver of Spark passes locations on, and needs none.
        import fsspec

        return fsspec.filesystem(self.protocol, **json.loads(self.options)), self.path
