"""The names in SAVEPOINT, ROLLBACK TO and RELEASE SAVEPOINT.

Source: mysql-server, sql/binlog.cc, binlog_savepoint_set and binlog_savepoint_rollback; mariadb,
sql/log.cc, the same.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_binlog.sql.lexer import Reader, split_words

if TYPE_CHECKING:
    from airflow_provider_binlog.sql.session import Session


class SavepointVerb(Enum):
    """What a statement does with a savepoint."""

    SET = "SAVEPOINT"
    RELEASE = "RELEASE SAVEPOINT"
    ROLLBACK_TO = "ROLLBACK TO"


class SavepointStatement(NamedTuple):
    """A statement on a savepoint.

    Attributes:
        verb: What it does.
        name: As written; None where it cannot be read.
    """

    verb: SavepointVerb
    name: str | None


def read_savepoint(sql: str, session: Session) -> SavepointStatement:
    """Return what a statement does with which savepoint.

    Args:
        sql: One that `classify` says to be SAVEPOINT or ROLLBACK_TO.
        session: That wrote it.
    """
    found = {_read(Reader(words)) for words in split_words(sql, session)}
    if len(found) == 1:
        return found.pop()
    first = sql.lstrip()[:2].upper()
    verbs = {"SA": SavepointVerb.SET, "RE": SavepointVerb.RELEASE}
    return SavepointStatement(verbs.get(first, SavepointVerb.ROLLBACK_TO), None)


def _read(words: Reader) -> SavepointStatement:
    verb = words.take("SAVEPOINT", "RELEASE", "ROLLBACK")
    if verb == "ROLLBACK":
        words.take("WORK")
        words.take("TO")
    if verb != "SAVEPOINT":
        words.take("SAVEPOINT")
    last = words.rest()
    name = last[0].text if len(last) == 1 and last[0].quote != "'" else None
    verbs = {"SAVEPOINT": SavepointVerb.SET, "RELEASE": SavepointVerb.RELEASE}
    return SavepointStatement(verbs.get(verb or "", SavepointVerb.ROLLBACK_TO), name)
