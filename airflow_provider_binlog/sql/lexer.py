"""SQL as words: the one lexer, for either flavor and every `sql_mode`; a statement's session.

Source: mysql-server, sql/sql_lex.cc, lex_one_token; sql/system_variables.h; mariadb, the same, and
sql/sql_class.h, MODE_...
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.position import Flavor

STATEMENT_SHOWN = 200
"""Characters of a statement that an error shows."""


class Word(NamedTuple):
    """A word, a sign, or the content of quotes; `quote` is empty for words and signs."""

    text: str
    quote: str = ""


class Dialect(NamedTuple):
    """Rules of word ends: a backslash escapes in string literals; `ansi`: `"` encloses names."""

    flavor: Flavor
    escapes: bool = True
    ansi: bool = False


_LEXEME = r"""
      (?P<gap> [ \t\n\v\f\r]+
        | {opening}                # a version comment opens: its content counts
        | \*/                      # and closes
        | /\*.*?\*/
        | \#[^\n]* | --(?=[\0-\x20]|\Z)[^\n]*
      )
    | (?P<quoted> `(?:[^`]++|``)*+` | "(?:{double}|""|[^"\\])*+" | '(?:{single}|''|[^'\\])*+' )
    | (?P<word> [\w$\x80-\U0010FFFF]++ )
    | (?P<sign> (?!/\*) [^'"`] )  # a comment that does not end is refused, as by the server
"""
# The server that logged a version comment executed it: one that it did not, it logs without the
# exclamation mark. To MySQL `/*M!` is a comment like any other.
_OPENINGS = {Flavor.MYSQL: r"/\*!\d*", Flavor.MARIADB: r"/\*M?!\d*"}
_NAMES_CONNECTION = re.compile(r"\b(?:CONNECTION|SPIDER)\b", re.IGNORECASE)
_CONNECTION = re.compile(
    r"""(\b(?:CONNECTION|COMMENT)\s*+=?\s*+)(?:'(?:[^'\\]|\\.|'')*+'|"(?:[^"\\]|\\.|"")*+")""",
    re.IGNORECASE | re.DOTALL,
)
_ESCAPE, _PLAIN = r"\\.", r"\\"
_LEXEMES = {
    Dialect(flavor, escapes, ansi): re.compile(
        _LEXEME.format(
            opening=opening,
            single=_ESCAPE if escapes else _PLAIN,
            double=_ESCAPE if escapes and not ansi else _PLAIN,
        ),
        re.VERBOSE | re.DOTALL,
    )
    for flavor, opening in _OPENINGS.items()
    for escapes in (True, False)
    for ansi in (True, False)
}
_IN_TEXT = {quote: re.compile(rf"\\(.)|{quote}{quote}", re.DOTALL) for quote in "'\""}
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}


def split_words(sql: str, session: Session) -> list[Word]:
    """Return the words of a statement.

    Raises:
        UnsupportedError: A quote or a comment does not end, or the statement has a backslash, and
            the log does not say `sql_mode`.
    """
    if session.sql_mode is None and "\\" in sql:
        raise _not_understood()
    return list(scan(sql, session.dialect))


def scan(sql: str, dialect: Dialect) -> Iterator[Word]:
    """Yield the words of a statement.

    Raises:
        UnsupportedError: A quote or a comment does not end.
    """
    lexeme, at = _LEXEMES[dialect], 0
    while at < len(sql):
        match = lexeme.match(sql, at)
        if match is None:
            raise _not_understood()
        at = match.end()
        if match.lastgroup == "quoted":
            yield _quoted(match[0], dialect)
        elif match.lastgroup != "gap":
            yield Word(match[0])


def mask_literals(sql: str, session: Session, size: int = STATEMENT_SHOWN) -> str:
    """Return the beginning of a statement for messages: `?` for literals, and no comments.

    Nothing from a quote that does not end on is shown.
    """
    dialect = session.dialect
    lexeme, at, shown = _LEXEMES[dialect], 0, ""
    while at < len(sql) and len(shown) < size and (match := lexeme.match(sql, at)):
        at, text = match.end(), match[0]
        if match.lastgroup == "gap":
            shown = f"{shown.rstrip()} "
        elif match.lastgroup == "quoted":
            shown += text if text[0] == "`" or (text[0] == '"' and dialect.ansi) else "?"
        else:
            shown += "?" if text[0].isdigit() else text
    return shown[:size].strip()


def hide_passwords(sql: str) -> str:
    """Return a statement with `?` for what may hold a password: FEDERATED's and SPIDER's tables.

    Source: MySQL manual, "Creating FEDERATED Tables"; MariaDB manual, "Spider Table Parameters".
    """
    return _CONNECTION.sub(r"\1'?'", sql) if _NAMES_CONNECTION.search(sql) else sql


def _quoted(text: str, dialect: Dialect) -> Word:
    quote, inside = text[0], text[1:-1]
    if dialect.escapes and (quote == "'" or (quote == '"' and not dialect.ansi)):
        return Word(_IN_TEXT[quote].sub(_unescaped, inside), quote)
    return Word(inside.replace(quote * 2, quote), quote)


def _unescaped(match: re.Match[str]) -> str:
    escaped = match[1]
    if escaped is None:
        return match[0][0]
    return match[0] if escaped in "%_" else _ESCAPED.get(escaped, escaped)


def capitals(text: str) -> str:
    """Return a word in capitals, or as it is: a letter beyond ASCII is in no word of SQL."""
    return text.upper() if text.isascii() else text


def keyword(word: Word) -> str:
    """Return a word in capitals; empty for what is in quotes."""
    return "" if word.quote else capitals(word.text)


class Reader:
    """Words, read from the left."""

    def __init__(self, words: Sequence[Word]) -> None:
        self._words = words
        self._at = 0

    def take(self, *wanted: str) -> str | None:
        """Return the next word, in capitals, if it is one of these; quoted names are no words."""
        word = self.peek()
        if word.quote or not word.text or keyword(word) not in wanted:
            return None
        self._at += 1
        return keyword(word)

    def take_all(self, *wanted: str) -> list[str]:
        """Return the next words as long as they are of these."""
        taken = []
        while (word := self.take(*wanted)) is not None:
            taken.append(word)
        return taken

    def next(self) -> Word | None:
        """Return the next word, whatever it is; None at the end."""
        word = self.peek() if self._at < len(self._words) else None
        self._at += word is not None
        return word

    def peek(self, ahead: int = 0) -> Word:
        """Return a word to come; an empty one past the end."""
        at = self._at + ahead
        return self._words[at] if at < len(self._words) else Word("")

    def skip_brackets(self) -> Sequence[Word] | None:
        """Return the content of the brackets that follow, and move past them; None without any.

        Raises:
            UnsupportedError: They do not end.
        """
        if self.peek() != Word("("):
            return None
        end = closing(self._words, self._at)
        inside = self._words[self._at + 1 : end]
        self._at = end + 1
        return inside

    def rest(self) -> list[Word]:
        """Return the words that are left, without a semicolon at the end."""
        words = list(self._words[self._at :])
        while words and words[-1] == Word(";"):
            words.pop()
        return words

    def seek(self, *wanted: str) -> str | None:
        """Move past the first of these words that follows, and return it; None at the end."""
        while self._at < len(self._words):
            if (word := self.take(*wanted)) is not None:
                return word
            self._at += 1
        return None

    def name(self) -> str:
        """Return the next word as a name.

        Raises:
            UnsupportedError: There is only a sign, a string or the end.
        """
        text, quote = self.peek()
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
        """Raise an UnsupportedError if more than a semicolon is left."""
        self.take_all(";")
        if self._at < len(self._words):
            raise _not_understood()


def closing(words: Sequence[Word], start: int) -> int:
    """Return the index of the bracket that closes the one at `start`.

    Raises:
        UnsupportedError: It does not end.
    """
    depth = 0
    for index in range(start, len(words)):
        depth += (words[index] == Word("(")) - (words[index] == Word(")"))
        if depth == 0:
            return index
    raise UnsupportedError("a bracket that does not end")


def brackets(words: Sequence[Word]) -> tuple[Sequence[Word], Sequence[Word]]:
    """Return the content of the brackets that the words begin with, and what follows them.

    Raises:
        UnsupportedError: They do not begin with a bracket, or it does not end.
    """
    if not words or words[0] != Word("("):
        raise UnsupportedError("no bracket")
    end = closing(words, 0)
    return words[1:end], words[end + 1 :]


def chunks(words: Sequence[Word]) -> Iterator[Sequence[Word]]:
    """Yield what is between the commas outside of brackets."""
    start = 0
    for index, word in outer_words(words):
        if word == Word(","):
            yield words[start:index]
            start = index + 1
    if start < len(words):
        yield words[start:]


def outer_words(words: Sequence[Word]) -> Iterator[tuple[int, Word]]:
    """Yield the words outside of brackets with their indexes: of brackets, those that open."""
    depth = 0
    for index, word in enumerate(words):
        closes = word == Word(")")
        if depth == 0 and not closes:
            yield index, word
        depth += (word == Word("(")) - closes


def outer_texts(words: Sequence[Word]) -> list[str]:
    """Return the words outside of brackets in capitals: quoted ones empty, brackets as `(`."""
    return [keyword(word) for _, word in outer_words(words)]


def _not_understood() -> UnsupportedError:
    return UnsupportedError(
        "the tables of a statement cannot be determined: start after it, with a new snapshot of "
        "the tables, and report it"
    )


ANSI_QUOTES = 1 << 2
ORACLE = 1 << 9
NO_AUTO_VALUE_ON_ZERO = 1 << 19
NO_BACKSLASH_ESCAPES = 1 << 20
STRICT_TRANS_TABLES = 1 << 21
STRICT_ALL_TABLES = 1 << 22
PAD_CHAR_TO_FULL_LENGTH = 1 << 31
EMPTY_STRING_IS_NULL = 1 << 32
"""Of MariaDB; another mode of MySQL has the same bit."""

_STRICT = STRICT_TRANS_TABLES | STRICT_ALL_TABLES


@dataclass(frozen=True, slots=True)
class Session:
    """A server's flavor, and what the log says of the session that ran a statement; else None.

    Attributes:
        sql_mode: As bits.
        explicit_timestamps: `explicit_defaults_for_timestamp`.
        connection_charset, client_charset: Of string literals, and of the statement's text.
        seconds, microseconds: When the statement started, since 1970, and what is to be added.
        time_zone: Its name, or an offset.
    """

    flavor: Flavor
    database: str = ""
    sql_mode: int | None = None
    explicit_timestamps: bool | None = None
    connection_charset: str | None = None
    client_charset: str | None = None
    seconds: int | None = None
    microseconds: int | None = None
    time_zone: str | None = None

    def has(self, mode: int) -> bool | None:
        """Whether `sql_mode` has a bit; None where it is not known."""
        return None if self.sql_mode is None else bool(self.sql_mode & mode)

    @property
    def dialect(self) -> Dialect:
        """The rules of word ends; without `sql_mode`, the defaults."""
        escapes = not self.has(NO_BACKSLASH_ESCAPES)
        return Dialect(self.flavor, escapes, ansi=bool(self.has(ANSI_QUOTES)))

    @property
    def is_strict(self) -> bool:
        """Whether a statement fails rather than change a value so that it fits."""
        return bool(self.has(_STRICT))
