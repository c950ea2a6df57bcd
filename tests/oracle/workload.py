"""Generated tables and writes: random columns, values, sessions and DDL; a seed gives the same."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

import pymysql

from airflow_provider_binlog.names import quote_identifier as quote
from tests.fixtures.mysql import connect
from tests.oracle.ddl import Ddl
from tests.oracle.kinds import as_selected
from tests.oracle.session import Session
from tests.oracle.settings import MIXED, Settings
from tests.oracle.tables import BASE, IDS, KEY, KEY_OF, KEYS, Past, Table
from tests.support.row_statements import RowStatements

if TYPE_CHECKING:
    from tests.services.servers import Server

DATABASE = "oracle"

# No such XID; and what MariaDB says of one that changed nothing: it was rolled back.
_NOT_THERE = frozenset({1397, 1402})
_SETTLED_SECONDS_MAX = 10


@dataclass(frozen=True)
class _Prepared:
    """An XA transaction that is prepared; its table is left alone until it is decided."""

    xid: str
    table: Table


class Workload:
    """Writes to a database of its own, mostly by one session."""

    def __init__(self, server: Server, settings: Settings, seed: int) -> None:
        self._random = Random(seed)
        self._server = server
        self._settings = settings
        self._logs_all = settings.is_mysql or settings.image == "FULL"
        self._logs_generated = self._logs_all and server.logs_generated
        self._session = Session(server)
        self._ddl = Ddl(server, settings, self._random, self._session)
        # MariaDB does not log what REPLACE resets, and its own replicas keep the old values.
        self._rows = RowStatements(
            self._random, replaces=self._logs_all, counts=(1, 1, 3, 25), ids=IDS
        )
        self._prepared: _Prepared | None = None
        self._xids = 0

    def close(self) -> None:
        """End the session; what is prepared is rolled back."""
        with closing(self._session):
            self._roll_back_prepared()

    @property
    def tables(self) -> list[Table]:
        """All that there are."""
        return self._ddl.tables

    @property
    def past(self) -> Past:
        """What has been."""
        return self._ddl.past

    @property
    def done(self) -> Counter[str]:
        """Statements by kind, and those that the server refused."""
        return self._session.done

    def create(self) -> None:
        """Create the database and its tables."""
        execute = self._session.execute
        self._roll_back_prepared()
        execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
        execute(f"USE {DATABASE}")
        self._choose_session(self._session)
        for first_name in KEY_OF:
            # MariaDB does not log all that it generates, and such a table is refused.
            if first_name != "generated" or self._logs_generated:
                self._ddl.create(first_name)

    def run(self, statements: int) -> None:
        """Write for about so many statements."""
        random = self._random
        for _ in range(statements):
            if random.random() < 0.05:
                self._choose_session(self._session)
            if random.random() < 0.06:
                self._ddl.alter(self._table(), self._free())
            elif random.random() < 0.03:
                self._prepare_or_settle()
            else:
                self._transaction()

    def _free(self) -> list[Table]:
        """Return the tables that no prepared transaction holds."""
        held = self._prepared.table if self._prepared else None
        return [each for each in self.tables if each is not held]

    def _table(self) -> Table:
        return self._random.choice(self._free())

    # ------------------------------------------------------------------ transactions

    def _choose_session(self, session: Session) -> None:
        """Set what each session may set for itself."""
        image = self._settings.image
        if image == MIXED:
            images = ["FULL", "MINIMAL", "NOBLOB"]
            if self._settings.server == "mariadb118":
                images.append("FULL_NODUP")
            image = self._random.choice(images)
        session.execute(f"SET SESSION binlog_row_image = {image}")
        if self._settings.partial_json:
            value = self._random.choice(["PARTIAL_JSON", "PARTIAL_JSON", ""])
            # A difference says nothing where the image leaves out what it changes.
            if image == "MINIMAL":
                value = ""
            session.execute(f"SET SESSION binlog_row_value_options = '{value}'")

    def _transaction(self) -> None:
        random, session = self._random, self._session
        if random.random() < 0.4:
            session.attempt(self._write(self._table()))
            return
        session.execute("BEGIN")
        self._writes(session, None)
        session.execute("ROLLBACK" if random.random() < 0.1 else "COMMIT")

    def _writes(self, session: Session, table: Table | None) -> None:
        """Write to one table, or to any, some of it after savepoints, and rolled back."""
        random = self._random
        for number in range(random.choice([1, 2, 5])):
            if random.random() < 0.15:
                session.execute(f"SAVEPOINT s{number}")
                session.attempt(self._write(table or self._table()))
                if random.random() < 0.5:
                    session.execute(f"ROLLBACK TO s{number}")
            session.attempt(self._write(table or self._table()))

    def _prepare_or_settle(self) -> None:
        """Prepare an XA transaction in a session of its own, or decide the one that is."""
        random = self._random
        if self._prepared is not None:
            self._settle(self._prepared, "ROLLBACK" if random.random() < 0.25 else "COMMIT")
            return
        self._xids += 1
        xid, table = f"'oracle','{self._xids}',{random.choice([1, 7])}", self._table()
        with closing(Session(self._server, database=DATABASE)) as session:
            self._choose_session(session)
            session.execute(f"XA START {xid}")
            self._writes(session, table)
            session.execute(f"XA END {xid}")
            if random.random() < 0.2:
                session.execute(f"XA COMMIT {xid} ONE PHASE")
            else:
                session.execute(f"XA PREPARE {xid}")
                self._prepared = _Prepared(xid, table)

    def _settle(self, prepared: _Prepared, verb: str) -> None:
        self._prepared = None
        until = time.monotonic() + _SETTLED_SECONDS_MAX
        # One that changed nothing has ended; one whose session is still ending is not found yet.
        while self._session.execute("XA RECOVER"):
            try:
                self._session.execute(f"XA {verb} {prepared.xid}")
            except pymysql.MySQLError as error:
                if error.args[0] not in _NOT_THERE or time.monotonic() > until:
                    raise
                time.sleep(0.01)

    def _roll_back_prepared(self) -> None:
        for form, size, _, data in self._session.execute("XA RECOVER"):
            raw = data if isinstance(data, bytes) else data.encode()
            xid = f"x'{raw[:size].hex()}',x'{raw[size:].hex()}',{form}"
            with contextlib.suppress(pymysql.MySQLError):
                self._session.execute(f"XA ROLLBACK {xid}")

    def _write(self, table: Table) -> str:
        return self._rows.write(quote(table.name), table.columns, KEY)

    # ------------------------------------------------------------------ the server

    def contents(self, table: Table) -> list[dict[str, Any]]:
        """Return what SELECT returns, in the form that is compared."""
        kinds = {name: KEYS[name] for name in ("id", "part")}
        kinds |= dict.fromkeys(table.generated, BASE)
        kinds |= {each.name: each.kind for each in table.columns}
        shown = ", ".join(kind.select.format(f"`{name}`") for name, kind in kinds.items())
        rows = self._session.execute(f"SELECT {shown} FROM {quote(table.name)}")
        return [dict(zip(kinds, map(as_selected, row), strict=True)) for row in rows]


@contextlib.contextmanager
def global_settings(server: Server, settings: Settings) -> Any:
    """Set the server to a combination, and back."""
    values = {"binlog_row_metadata": settings.metadata}
    if settings.is_mysql:
        values["binlog_transaction_compression"] = str(int(settings.compression))
    else:
        values["log_bin_compress"] = str(int(settings.compression))
    with closing(connect(server)) as connection, connection.cursor() as cursor:
        before = {}
        for name in values:
            cursor.execute(f"SELECT @@GLOBAL.{name}")
            before[name] = cursor.fetchone()[0]
        for name, value in values.items():
            cursor.execute(f"SET GLOBAL {name} = {value}")
        try:
            yield
        finally:
            for name, value in before.items():
                cursor.execute(f"SET GLOBAL {name} = {value}")
