"""SQL as words: as much of the language as it takes to find the names in a statement.

Source: mysql-server, sql/sql_lex.cc, lex_one_token; mariadb, the same.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.position import Flavor

if TYPE_CHECKING:
    from collections.abc import Sequence


class Word(NamedTuple):
    """A word, a sign, or what stands between quotes.

    Attributes:
        text: As it stands, or what stands between the quotes.
        quote: The quote it stands in; empty for words and signs.
    """

    text: str
    quote: str = ""


_LEXEME = r"""
      (?P<gap> [ \t\n\v\f\r]+
        | {opening}                # a version comment opens: its content counts
        | \*/                      # and closes
        | /\*.*?\*/
        | \#[^\n]* | --(?=[\0-\x20]|\Z)[^\n]*
      )
    | (?P<quoted> `(?:[^`]++|``)*+` | "(?:{inside}|""|[^"\\])*+" | '(?:{inside}|''|[^'\\])*+' )
    | (?P<word> [\w$\x80-\U0010FFFF]++ )
    | (?P<sign> (?!/\*) [^'"`] )  # a comment that does not end is refused, as by the server
"""
# The server that logged a version comment executed it: one that it did not, it logs without the
# exclamation mark. To MySQL `/*M!` is a comment like any other.
_OPENINGS = {Flavor.MYSQL: r"/\*!\d*", Flavor.MARIADB: r"/\*M?!\d*"}
# A session's sql_mode decides what a backslash is.
_NO_BACKSLASH_ESCAPES = 1 << 20
_INSIDE = (r"\\.", r"\\")
_LEXEMES = {
    flavor: [
        re.compile(_LEXEME.format(opening=opening, inside=inside), re.VERBOSE | re.DOTALL)
        for inside in _INSIDE
    ]
    for flavor, opening in _OPENINGS.items()
}
_IN_TEXT = re.compile(r"\\(.)|''", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}


def split_words(sql: str, flavor: Flavor, sql_mode: int | None = None) -> list[list[Word]]:
    """Return the words of a statement: once for each meaning that a backslash in it may have.

    A meaning under which a quote does not end is none: nothing is returned for it. `sql_mode` is
    the session's, and decides between the two; None where it is not known.
    """
    meanings: tuple[bool, ...] = (True, False)
    if "\\" not in sql:
        meanings = meanings[:1]
    elif sql_mode is not None:
        meanings = (not sql_mode & _NO_BACKSLASH_ESCAPES,)
    readings = [_split(sql, flavor, escapes=escapes) for escapes in meanings]
    return [words for words in readings if words is not None]


def _split(sql: str, flavor: Flavor, *, escapes: bool) -> list[Word] | None:
    lexeme = _LEXEMES[flavor][0 if escapes else 1]
    words, at = [], 0
    while at < len(sql):
        match = lexeme.match(sql, at)
        if match is None:
            return None
        at = match.end()
        text = match[0]
        if match.lastgroup == "quoted":
            quote, inside = text[0], text[1:-1]
            if escapes and quote == "'":
                inside = _IN_TEXT.sub(_unescaped, inside)
            else:
                inside = inside.replace(quote * 2, quote)
            words.append(Word(inside, quote))
        elif match.lastgroup != "gap":
            words.append(Word(text))
    return words


def _unescaped(match: re.Match[str]) -> str:
    escaped = match[1]
    if escaped is None:
        return "'"
    return match[0] if escaped in "%_" else _ESCAPED.get(escaped, escaped)


def capitals(text: str) -> str:
    """Return a word in capitals, or as it is: a letter beyond ASCII is in no word of SQL."""
    return text.upper() if text.isascii() else text


class Reader:
    """Words, read from the left."""

    def __init__(self, words: Sequence[Word]) -> None:
        self._words = words
        self._at = 0

    def take(self, *wanted: str) -> str | None:
        """Return the next word, in capitals, if it is one of these; quoted names are no words."""
        if self._at >= len(self._words):
            return None
        text, quote = self._words[self._at]
        word = capitals(text)
        if quote or word not in wanted:
            return None
        self._at += 1
        return word

    def take_all(self, *wanted: str) -> list[str]:
        """Return the next words as long as they are of these."""
        taken = []
        while (word := self.take(*wanted)) is not None:
            taken.append(word)
        return taken

    def rest(self) -> list[Word]:
        """Return the words that are left, without a semicolon at the end."""
        words = list(self._words[self._at :])
        while words and words[-1] == Word(";"):
            words.pop()
        return words

    def seek(self, *wanted: str) -> str | None:
        """Go behind the first of these words that follows, and return it; None at the end."""
        while self._at < len(self._words):
            if (word := self.take(*wanted)) is not None:
                return word
            self._at += 1
        return None

    def name(self) -> str:
        """Return the next word as a name.

        Raises:
            UnsupportedError: There is none: only a sign, a text or the end.
        """
        text, quote = self._words[self._at] if self._at < len(self._words) else Word("")
        unquoted = text[:1].isalnum() or text[:1] in ("_", "$") or text[:1] > "\x7f"
        if not (unquoted if not quote else quote != "'"):
            raise _not_understood()
        self._at += 1
        return text

    def table(self, default_database: str) -> tuple[str, str]:
        """Return the next words as a table's name: `t`, `d.t`, or `.t` of the default database.

        Raises:
            UnsupportedError: They are none.
        """
        if self.take("."):
            return default_database, self.name()
        first = self.name()
        return (first, self.name()) if self.take(".") else (default_database, first)

    def end(self) -> None:
        """Go to the end of the statement.

        Raises:
            UnsupportedError: More than a semicolon is left.
        """
        self.take_all(";")
        if self._at < len(self._words):
            raise _not_understood()


def _not_understood() -> UnsupportedError:
    return UnsupportedError(
        "the tables of a statement cannot be made out: begin behind it, with a new snapshot of the "
        "tables, and report it"
    )
