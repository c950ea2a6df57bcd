"""Classify logged statements: their effect on the transaction and on rows.

Only as many words are read as that takes. The content of version comments, `/*!80000 ... */`,
counts: the server that logged them executed it.

Source: mysql-server, sql/sql_yacc.yy, and of savepoints sql/binlog.cc, binlog_savepoint_set and
binlog_savepoint_rollback; mariadb, the same, sql/log.cc and `SET STATEMENT`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum
from itertools import islice

from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.sql.lexer import Session, keyword, scan


class StatementType(Enum):
    """Effect of a statement on its transaction."""

    BEGIN = "begin"
    COMMIT = "commit"
    ROLLBACK = "rollback"
    SAVEPOINT = "savepoint"
    """SAVEPOINT, or RELEASE SAVEPOINT."""
    ROLLBACK_TO = "rollback to"
    """ROLLBACK TO SAVEPOINT: logged only after changes that cannot be rolled back."""
    XA_START = "xa start"
    XA_END = "xa end"
    XA_PREPARE = "xa prepare"
    XA_COMMIT = "xa commit"
    XA_ROLLBACK = "xa rollback"
    DDL = "ddl"
    """Changes tables or other objects: CREATE, ALTER, DROP, RENAME, TRUNCATE, IMPORT."""
    DML = "dml"
    """Changes rows, or may: nothing but this text says which."""
    OTHER = "other"
    """Changes no table of a user: GRANT, ANALYZE, FLUSH, SET PASSWORD."""
    UNKNOWN = "unknown"
    """Begins with no word that is known here."""


_TYPES = {
    "": StatementType.OTHER,  # nothing but comments
    "BEGIN": StatementType.BEGIN,
    "COMMIT": StatementType.COMMIT,
    "SAVEPOINT": StatementType.SAVEPOINT,
    "RELEASE": StatementType.SAVEPOINT,
    **dict.fromkeys(("ALTER", "CREATE", "DROP", "IMPORT", "RENAME", "TRUNCATE"), StatementType.DDL),
    # A stored function that changes rows is logged by the SELECT or DO that calls it.
    **dict.fromkeys(
        ("CALL", "DELETE", "DO", "INSERT", "LOAD", "REPLACE", "SELECT", "UPDATE", "WITH"),
        StatementType.DML,
    ),
    **dict.fromkeys(
        (
            *("ANALYZE", "BACKUP", "BINLOG", "CACHE", "CHANGE", "CHECK", "CHECKSUM", "CLONE"),
            *("FLUSH", "GRANT", "INSTALL", "KILL", "LOCK", "OPTIMIZE", "PURGE", "REPAIR"),
            *("RESET", "REVOKE", "SET", "SHUTDOWN", "STOP", "UNINSTALL", "UNLOCK", "USE"),
        ),
        StatementType.OTHER,
    ),
}
_XA_TYPES = {
    "START": StatementType.XA_START,
    "BEGIN": StatementType.XA_START,
    "END": StatementType.XA_END,
    "PREPARE": StatementType.XA_PREPARE,
    "COMMIT": StatementType.XA_COMMIT,
    "ROLLBACK": StatementType.XA_ROLLBACK,
}
_ANALYZES_TABLES = frozenset({"TABLE", "TABLES", "LOCAL", "NO_WRITE_TO_BINLOG"})
_QUOTED = "'"
RDS_DATABASE = "mysql"
"""The database of the tables that Amazon RDS keeps about its server."""

_WRITES = (["INSERT", "INTO"], ["DELETE", "FROM"])
_XID = re.compile(r"X'[0-9a-f]*'\s*,\s*X'[0-9a-f]*'\s*,\s*-?\d+", re.IGNORECASE)


def classify(sql: str, session: Session) -> StatementType:
    """Return what the statement is to its transaction.

    After MariaDB's `SET STATEMENT variable = value FOR ...` the rest decides. One with a backslash
    may be of any type if `sql_mode` is not known.
    """
    if session.sql_mode is None and "\\" in sql:
        return StatementType.UNKNOWN
    return _classify(keywords(sql, session))


def first_keyword(sql: str, session: Session) -> str:
    """Return the first word of a statement in capitals; empty without any."""
    return next(keywords(sql, session), "")


def writes_rds_table(sql: str, session: Session) -> bool:
    """Whether a statement is one by which Amazon RDS notes something about its server.

    Its users may not write to these tables, and tables of this database have no triggers.
    """
    words, database = list(islice(keywords(sql, session), 6)), session.database
    verb, named = words[:2], words[2:]
    if named[1:2] == ["."]:
        database, named = named[0].lower(), named[2:]
    of_rds = any(name.startswith("RDS_") for name in named[:1])
    alone = named[1:2] != [","]  # DELETE FROM mysql.rds_sysinfo, shop.orders USING ...
    return verb in _WRITES and database == RDS_DATABASE and of_rds and alone


def keywords(sql: str, session: Session) -> Iterator[str]:
    """Yield words in capitals and signs, a quote in place of what is in quotes, while they end."""
    with suppress(UnsupportedError):
        for word in scan(sql, session.dialect):
            yield keyword(word) or _QUOTED


def _classify(words: Iterator[str]) -> StatementType:
    first = next(words, "")
    while first == "SET":
        if next(words, "") != "STATEMENT" or "FOR" not in words:
            return StatementType.OTHER
        first = next(words, "")
    if first == "XA":
        return _XA_TYPES.get(next(words, ""), StatementType.UNKNOWN)
    if first == "ROLLBACK":
        return StatementType.ROLLBACK_TO if "TO" in words else StatementType.ROLLBACK
    if first == "START":
        return StatementType.BEGIN if next(words, "") == "TRANSACTION" else StatementType.OTHER
    # MariaDB executes what it analyzes.
    executes = first == "ANALYZE" and next(words, "") not in _ANALYZES_TABLES
    if executes or (first == "CREATE" and _takes_rows(words)):
        return StatementType.DML
    return _TYPES.get(first, StatementType.UNKNOWN)


def xid_of(sql: str) -> str:
    """Return the name in an XA statement, as the server writes it: `X'61',X'62',1`."""
    match = _XID.search(sql)
    return re.sub(r"\s", "", match[0]) if match else ""


def _takes_rows(words: Iterator[str]) -> bool:
    """Whether CREATE TABLE takes rows from a query in its text.

    In row format the server logs the columns instead of the query, and the rows after them.
    """
    for word in words:
        if word == "TABLE":
            break
        if word not in {"OR", "REPLACE"}:
            return False  # TEMPORARY, or not a table
    before = ""
    for word in words:
        if word in {"SELECT", "TABLE"} or (before == "VALUES" and word in {"ROW", "("}):
            return True
        before = word
    return False
