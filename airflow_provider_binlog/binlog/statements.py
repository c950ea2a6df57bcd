"""What a logged statement does to its transaction and to rows, told by its words.

Only as much of SQL is read as that takes: words, past comments, strings and quoted names. The
content of version comments, `/*!80000 ... */`, counts: the server that logged them executed it.

Source: mysql-server, sql/sql_lex.cc, lex_one_token; mariadb, the same and `SET STATEMENT`.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class StatementKind(Enum):
    """What a statement is to its transaction."""

    BEGIN = "begin"
    COMMIT = "commit"
    ROLLBACK = "rollback"
    SAVEPOINT = "savepoint"
    """SAVEPOINT, or RELEASE SAVEPOINT."""
    ROLLBACK_TO = "rollback to"
    """ROLLBACK TO SAVEPOINT: logged only behind changes that cannot be rolled back."""
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


_KINDS = {
    "": StatementKind.OTHER,  # nothing but comments
    "BEGIN": StatementKind.BEGIN,
    "COMMIT": StatementKind.COMMIT,
    "SAVEPOINT": StatementKind.SAVEPOINT,
    "RELEASE": StatementKind.SAVEPOINT,
    **dict.fromkeys(("ALTER", "CREATE", "DROP", "IMPORT", "RENAME", "TRUNCATE"), StatementKind.DDL),
    # A stored function that changes rows is logged by the SELECT or DO that calls it.
    **dict.fromkeys(
        ("CALL", "DELETE", "DO", "INSERT", "LOAD", "REPLACE", "SELECT", "UPDATE", "WITH"),
        StatementKind.DML,
    ),
    **dict.fromkeys(
        (
            "ANALYZE",
            "BACKUP",
            "BINLOG",
            "CACHE",
            "CHANGE",
            "CHECK",
            "CHECKSUM",
            "CLONE",
            "FLUSH",
            "GRANT",
            "INSTALL",
            "KILL",
            "LOCK",
            "OPTIMIZE",
            "PURGE",
            "REPAIR",
            "RESET",
            "REVOKE",
            "SET",
            "SHUTDOWN",
            "STOP",
            "UNINSTALL",
            "UNLOCK",
            "USE",
        ),
        StatementKind.OTHER,
    ),
}
_XA_KINDS = {
    "START": StatementKind.XA_START,
    "BEGIN": StatementKind.XA_START,
    "END": StatementKind.XA_END,
    "PREPARE": StatementKind.XA_PREPARE,
    "COMMIT": StatementKind.XA_COMMIT,
    "ROLLBACK": StatementKind.XA_ROLLBACK,
}

_TOKEN = re.compile(
    r"""
      (?P<space> \s+
        | /\*M?!\d*                # a version comment opens: its content counts
        | \*/                      # and closes
        | /\*.*?(?:\*/|\Z)
        | \#[^\n]* | --(?=\s|\Z)[^\n]*
      )
    | (?P<quoted> '(?:[^'\\]|\\.|'')*'? | "(?:[^"\\]|\\.|"")*"? | `(?:[^`]|``)*`? )
    | (?P<word> [\w$]+ )
    | (?P<sign> . )
    """,
    re.VERBOSE | re.DOTALL,
)


def tokens(sql: str) -> Iterator[str]:
    """Yield words in capitals, and signs; a quoted name or string as its opening quote alone."""
    for match in _TOKEN.finditer(sql):
        if match.lastgroup == "word":
            yield match[0].upper()
        elif match.lastgroup == "quoted":
            yield match[0][0]
        elif match.lastgroup == "sign":
            yield match[0]


def classify(sql: str) -> StatementKind:
    """Return what the statement is to its transaction.

    Behind MariaDB's `SET STATEMENT variable = value FOR ...` the rest decides.
    """
    words = tokens(sql)
    first = next(words, "")
    while first == "SET":
        if next(words, "") != "STATEMENT" or "FOR" not in words:
            return StatementKind.OTHER
        first = next(words, "")
    if first == "XA":
        return _XA_KINDS.get(next(words, ""), StatementKind.UNKNOWN)
    if first == "ROLLBACK":
        return StatementKind.ROLLBACK_TO if "TO" in words else StatementKind.ROLLBACK
    if first == "START":
        return StatementKind.BEGIN if next(words, "") == "TRANSACTION" else StatementKind.OTHER
    if first == "CREATE" and _creates_with_rows(words):
        return StatementKind.DML
    return _KINDS.get(first, StatementKind.UNKNOWN)


def xid_of(sql: str) -> str:
    """Return the name in an XA statement, as the server writes it: `X'61',X'62',1`."""
    match = re.search(r"X'[0-9a-f]*'\s*,\s*X'[0-9a-f]*'\s*,\s*-?\d+", sql, re.IGNORECASE)
    return re.sub(r"\s", "", match[0]) if match else ""


def _creates_with_rows(words: Iterator[str]) -> bool:
    """Whether CREATE TABLE takes rows from a query in its text.

    In row format the server logs the columns instead of the query, and the rows behind them.
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
