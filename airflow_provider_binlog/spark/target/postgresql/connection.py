"""Connections of the driver to PostgreSQL, by the JDBC driver in its JVM: executors have none."""

# ruff: noqa: SLF001  PySpark has no other access to the JVM.

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any
from urllib.parse import quote as percent_encode

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_binlog.errors import (
    BinlogError,
    ConfigurationError,
    MergeError,
    StoreUnavailableError,
    TargetConflictError,
)
from airflow_provider_binlog.spark.target.jvm import java_class
from airflow_provider_binlog.spark.target.postgresql.settings import DRIVER, PostgresSettings

_VERSION_MIN = 150_000
_BUFFER_BYTES = 1 << 16
_CONNECT_SECONDS = 30
# How long a change of columns waits for the readers of a table.
_LOCK_MILLISECONDS = 60_000

_DRIVER_SETTINGS = {
    "ApplicationName": "airflow-provider-binlog",
    "connectTimeout": str(_CONNECT_SECONDS),
    "tcpKeepAlive": "true",
    # Each statement is run once or twice.
    "prepareThreshold": "0",
}
_SESSION_SETTINGS = {
    "client_min_messages": "warning",
    "datestyle": "ISO, YMD",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    "intervalstyle": "postgres",
    "lock_timeout": str(_LOCK_MILLISECONDS),
    "row_security": "off",
    "search_path": "pg_catalog",
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "timezone": "UTC",
}

SQLSTATE = "sqlstate"
"""Context of an error: PostgreSQL's code of it."""

_UNAVAILABLE = ("08", "53", "57", "58")
_CONFLICTS = ("40", "55P03")
_LOGIN = ("28", "3D000")


class Connection:
    """One connection; each statement is a transaction of its own outside of `transaction`."""

    def __init__(self, session: SparkSession, settings: PostgresSettings) -> None:
        self._session = session
        properties = java_class(session, "java.util.Properties")()
        own = {"user": settings.user, "password": settings.password}
        for name, value in (_DRIVER_SETTINGS | settings.properties | own).items():
            properties.setProperty(name, value)
        url = f"jdbc:postgresql://{_host(settings.host)}:{settings.port}/{_encode(settings)}"
        with _translated():
            self._connection = java_class(session, DRIVER)().connect(url, properties)
            self._statement = self._connection.createStatement()
            # Braces in names are theirs.
            self._statement.setEscapeProcessing(False)
        version = int(self.read("SELECT current_setting('server_version_num')"))
        if version < _VERSION_MIN:
            raise ConfigurationError("the merge needs PostgreSQL 15 or newer", version=version)
        for name, value in _SESSION_SETTINGS.items():
            self.execute(f"SET {name} = {literal(value)}")

    def execute(self, statement: str) -> int:
        """Run a statement; return how many rows it changed."""
        with _translated():
            self._statement.execute(statement)
            return int(self._statement.getUpdateCount())

    def read(self, query: str) -> Any:
        """Return the first value of a query as text; None if it is NULL, or if there is no row."""
        with _translated():
            rows = self._statement.executeQuery(query)
            return rows.getString(1) if rows.next() else None

    def read_json(self, query: str) -> Any:
        """Return the first value of a query, which is JSON; None if there is no row."""
        text = self.read(query)
        return None if text is None else json.loads(text)

    def copy(self, table: str, lines: DataFrame, *, few: bool) -> int:
        """Copy the lines of a DataFrame's one column into a table; return how many there are.

        Python sees none of them: the JVM takes each from Spark, and gives it to the driver.
        """
        with _translated():
            encoders = java_class(self._session, "org.apache.spark.sql.Encoders")
            texts = getattr(lines._jdf, "as")(encoders.STRING())
            # What is literals of its plan takes no job.
            rows = texts.collectAsList().iterator() if few else texts.toLocalIterator()
            stream = java_class(self._session, "org.postgresql.copy.PGCopyOutputStream")
            opened = stream(self._connection, f"COPY {table} FROM STDIN", _BUFFER_BYTES)
            done = False
            try:
                writer = java_class(self._session, "java.io.OutputStreamWriter")(opened, "UTF-8")
                rows.forEachRemaining(self._consumer(writer))
                writer.flush()
                count = int(opened.endCopy())
                done = True
                return count
            finally:
                if not done and opened.isActive():
                    opened.cancelCopy()

    def _consumer(self, writer: Any) -> Any:
        """Return a `Consumer` of Java that calls `writer.write`: a method handle, as one."""
        find = java_class(self._session, "java.lang.Class").forName
        lookup = java_class(self._session, "java.lang.invoke.MethodHandles").publicLookup()
        types = java_class(self._session, "java.lang.invoke.MethodType")
        nothing = java_class(self._session, "java.lang.Void").TYPE
        type_ = types.methodType(nothing, find("java.lang.String"))
        write = lookup.findVirtual(find("java.io.Writer"), "write", type_).bindTo(writer)
        proxies = java_class(self._session, "java.lang.invoke.MethodHandleProxies")
        return proxies.asInterfaceInstance(find("java.util.function.Consumer"), write)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit what the body does, or nothing of it."""
        self.execute("BEGIN")
        try:
            yield
        except BaseException:
            self.execute("ROLLBACK")
            raise
        self.execute("COMMIT")

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo what the body does in a transaction if it fails, and nothing else."""
        self.execute("SAVEPOINT merge")
        try:
            yield
        except BaseException:
            self.execute("ROLLBACK TO SAVEPOINT merge")
            raise
        self.execute("RELEASE SAVEPOINT merge")

    def is_alive(self) -> bool:
        """Whether the server answers."""
        return bool(self._connection.isValid(_CONNECT_SECONDS))

    def close(self) -> None:
        """End the session: what it locks is released."""
        self._connection.close()


class Connections:
    """Connections of one merge, each used by one thread at a time."""

    def __init__(self, session: SparkSession, settings: PostgresSettings) -> None:
        self._session, self._settings = session, settings
        self._lock = Lock()
        self._free: list[Connection] = []

    @contextmanager
    def take(self) -> Iterator[Connection]:
        """Lend a connection to the body; one that failed in it is closed."""
        with self._lock:
            connection = self._free.pop() if self._free else None
        if connection is None:
            connection = Connection(self._session, self._settings)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._free.append(connection)

    def close(self) -> None:
        """Close all of them."""
        for connection in self._free:
            connection.close()


def quote(name: str) -> str:
    """Return a name as PostgreSQL's SQL takes any."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as a literal of PostgreSQL's SQL."""
    return "'" + text.replace("'", "''") + "'"


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _encode(settings: PostgresSettings) -> str:
    return percent_encode(settings.database, safe="")


@contextmanager
def _translated() -> Iterator[None]:
    """Raise our errors for the driver's; what a value of a row says is not part of them."""
    try:
        yield
    except Py4JJavaError as error:
        translated = _translate(error)
        if translated is None:
            raise
        raise translated from None


def _translate(error: Py4JJavaError) -> BinlogError | None:
    """Return the error for one of the server or the driver; None for one of Spark's."""
    thrown = error.java_exception
    for _ in range(20):
        if thrown is None or thrown.getClass().getName() == "org.postgresql.util.PSQLException":
            break
        thrown = thrown.getCause()
    if thrown is None:
        return None
    state, said = str(thrown.getSQLState() or ""), thrown.getServerErrorMessage()
    text = str(thrown.getMessage() if said is None else said.getMessage())
    context = {SQLSTATE: state, "cause": " ".join(text.split())}
    if state.startswith(_LOGIN):
        return ConfigurationError("PostgreSQL refuses the login: correct the connection", **context)
    if state.startswith(_UNAVAILABLE):
        return StoreUnavailableError("PostgreSQL failed under the merge", **context)
    if state.startswith(_CONFLICTS):
        return TargetConflictError("other sessions hold locks on the table", **context)
    if state == "42501":
        return MergeError("the account of the connection lacks a privilege: grant it", **context)
    if state.startswith(("2BP01", "0A000")) and said is not None:
        context["detail"] = " ".join(str(said.getDetail() or "").split())
    return MergeError("PostgreSQL refuses a statement of the merge", **context)
