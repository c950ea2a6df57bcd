"""How to reach a server: the checked fields of a connection, and the connections of one task.

All connections of a task lead to the same server. A proxy or a DNS name may lead to another server
each time: positions of the one would be compared with the other's log, and rows of both be
committed under one identity.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from airflow_provider_binlog.errors import ConfigurationError, ServerChangedError
from airflow_provider_binlog.transport.server import queries

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pymysql

    from airflow_provider_binlog.position import SourceIdentity

    Connection = pymysql.Connection[Any]

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
        server_public_key_path: Path of a PEM file: the key of the server, which encrypts the
            password where there is no TLS.
        get_server_public_key: Whether a key that the server itself sends may do that.
        enable_cleartext_plugin: Whether the password may be sent in clear text without TLS.
        connect_timeout, read_timeout, query_timeout: Seconds; see `ServerConnection`.
        server_id: What we register as; None draws one for each stream.
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
        """Check the fields of a connection; `extra` holds the rest by the names used here.

        Raises:
            ConfigurationError: A field of `extra` is unknown or cannot be used as given.
        """
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
        for name in _NUMBERS_MAX.keys() & given.keys():
            given[name] = _integer(name, given[name])
        for name in set(_SWITCHES) & given.keys():
            given[name] = _switch(name, given[name])
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

        Raises:
            ConfigurationError: It is no such address, or a field cannot be used as given.
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

    def connect(self) -> pymysql.Connection[Any]:
        """Return a new connection; the caller closes it.

        Raises:
            AccessDeniedError: The server refuses the account, its password or this host.
            ConfigurationError: PyMySQL is too old, the TLS files cannot be read, the certificate
                does not hold, the server wants TLS, or asks for the password in a way that is not
                allowed.
            ConnectionLostError: The server was not reached, or has no room now.
            FormatError: What answers is no MySQL or MariaDB server.
        """
        # Here, so that parsing a DAG does not load it.
        import pymysql

        from airflow_provider_binlog.transport.server.driver import ServerConnection, driver_errors

        if tuple(map(int, pymysql.VERSION[:3])) < _PYMYSQL_MIN:
            raise ConfigurationError(
                f"PyMySQL is too old here: install {'.'.join(map(str, _PYMYSQL_MIN))} or later",
                found=pymysql.VERSION_STRING,
            )
        key, context = self._server_public_key(), self._ssl_context()
        with driver_errors(server=self.address, user=self.user):
            try:
                return ServerConnection(
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
            from airflow_provider_binlog.transport.server.driver import unverified_context

            return unverified_context()
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
        """Raise the error of the settings that one of PyMySQL means, if it means one."""
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

    def open(self) -> Connection:
        """Return a new connection; the caller closes it.

        Raises:
            ServerChangedError: It leads to another server than the ones before.
            ServerSetupError: The server writes no binary log.
            BinlogError: As `ConnectionSettings.connect`.
        """
        connection = self.settings.connect()
        try:
            self.check(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def check(self, connection: Connection) -> None:
        """Refuse a connection that leads to another server than the ones before.

        Raises:
            ServerChangedError, ServerSetupError: As `open`.
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
