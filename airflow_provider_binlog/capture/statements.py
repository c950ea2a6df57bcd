"""What a logged statement does to which tables: its kind, and the names in it.

Only statements that act on whole tables or databases matter here. Reading SQL is sqlglot's work;
a statement of such a kind in which no table is found is refused, since it may be about any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import sqlglot
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]  # re-exported

from airflow_provider_binlog.errors import UnsupportedError

if TYPE_CHECKING:
    from airflow_provider_binlog.binlog.statement_events import Query

_VERBS = ("ALTER", "CREATE", "DROP", "RENAME", "TRUNCATE")
_OBJECTS = ("TABLE", "TABLES", "DATABASE", "SCHEMA")
# Words between the verb and what it is about.
_MODIFIERS = ("OR", "REPLACE", "ONLINE", "OFFLINE", "IGNORE", "TEMPORARY")
_CONDITION = ("IF", "NOT", "EXISTS")


class Described(NamedTuple):
    """What a statement is about.

    Attributes:
        kind: Its verb and object with what changes their meaning: `ALTER TABLE`, `TRUNCATE TABLE`,
            `CREATE OR REPLACE TABLE`, `CREATE TEMPORARY TABLE`, `DROP DATABASE`.
        tables: (database, table) of each table it names; of a database, (database, "").
    """

    kind: str
    tables: tuple[tuple[str, str], ...]


def describe(query: Query) -> Described | None:
    """Return what a statement does to tables or databases as a whole; None if it does nothing.

    Temporary tables are nothing: no row of theirs is ever logged.

    Raises:
        UnsupportedError: It is about tables, and their names cannot be made out.
    """
    words = _Words(_tokenize(query))
    verb = words.take(_VERBS)
    if verb is None:
        return None
    modifiers = words.take_all(_MODIFIERS)
    about = words.take(_OBJECTS)
    if about is None and verb != "TRUNCATE":
        return None
    if "TEMPORARY" in modifiers:
        return None
    words.take_all(_CONDITION)
    kind = f"{verb} OR REPLACE" if "REPLACE" in modifiers else verb
    if about in ("DATABASE", "SCHEMA"):
        database = words.name()
        return Described(f"{kind} DATABASE", ((database or query.database, ""),))
    tables = [words.table(query.database)]
    if verb in ("DROP", "RENAME"):
        while words.take((",", "TO")) is not None:
            tables.append(words.table(query.database))
    elif verb == "ALTER":
        tables += words.tables_behind_rename_or_exchange(query.database)
    if None in tables:
        raise UnsupportedError(
            "the tables of a statement cannot be made out: leave the range out, or report it",
            statement=query.sql[:200],
        )
    return Described(f"{kind} TABLE", tuple(table for table in tables if table is not None))


def _tokenize(query: Query) -> list[Token]:
    try:
        tokens = sqlglot.tokenize(query.sql, read="mysql")
        if len(tokens) == 2 and tokens[0].token_type is TokenType.RENAME:
            # What sqlglot does not read is one string to it, behind the verb.
            return [tokens[0], *sqlglot.tokenize(tokens[1].text, read="mysql")]
    except SqlglotError as error:
        raise UnsupportedError(
            "a statement that cannot be read", statement=query.sql[:200]
        ) from error
    return tokens


class _Words:
    """Tokens, read from the left."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def _word(self, at: int) -> str:
        """Return a token as a keyword or sign; quoted names are none."""
        if at >= len(self._tokens) or self._tokens[at].token_type in _QUOTED:
            return ""
        return self._tokens[at].text.upper()

    def take(self, wanted: tuple[str, ...]) -> str | None:
        """Return the next word if it is one of these."""
        word = self._word(self._at)
        if word not in wanted:
            return None
        self._at += 1
        return word

    def take_all(self, wanted: tuple[str, ...]) -> list[str]:
        """Return the next words as long as they are of these."""
        taken = []
        while (word := self.take(wanted)) is not None:
            taken.append(word)
        return taken

    def name(self) -> str | None:
        """Return the next token as a name; None at the end or at a sign."""
        if self._at >= len(self._tokens):
            return None
        token = self._tokens[self._at]
        if token.token_type not in _QUOTED and not token.text.replace("$", "_").isidentifier():
            digits_first = token.text[:1].isdigit() and token.text.replace("$", "_").isalnum()
            if not digits_first:
                return None
        self._at += 1
        return token.text

    def table(self, default_database: str) -> tuple[str, str] | None:
        """Return the next tokens as a table's name."""
        first = self.name()
        if first is None or self.take((".",)) is None:
            return None if first is None else (default_database, first)
        second = self.name()
        return None if second is None else (first, second)

    def tables_behind_rename_or_exchange(
        self, default_database: str
    ) -> list[tuple[str, str] | None]:
        """Return the tables of `RENAME [TO | AS] t` and `EXCHANGE PARTITION p WITH TABLE t`."""
        tables = []
        while self._at < len(self._tokens):
            if self.take(("RENAME",)) is not None:
                if self._word(self._at) not in ("COLUMN", "INDEX", "KEY"):
                    self.take(("TO", "AS", "="))
                    tables.append(self.table(default_database))
            elif self._word(self._at) == "WITH" and self._word(self._at + 1) == "TABLE":
                self._at += 2
                tables.append(self.table(default_database))
            else:
                self._at += 1
        return tables


_QUOTED = (TokenType.IDENTIFIER, TokenType.STRING)
