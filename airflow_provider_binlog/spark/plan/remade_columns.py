"""Columns that are other ones than before, under the same name: what the lake has of them is wrong.

    ALTER TABLE t DROP COLUMN n, ADD COLUMN n INT
    ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a

No row event shows it, and the rows have the same shape as before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from airflow_provider_binlog.manifest import Statement

_LEXEME = re.compile(
    r"""
      (?P<gap> \s+ | /\*M?!\d* | \*/ | /\*.*?\*/ | \#[^\n]* | --(?=\s|\Z)[^\n]* )
    | (?P<quoted> `(?:[^`]|``)*` | "(?:[^"\\]|\\.|"")*" | '(?:[^'\\]|\\.|'')*' )
    | (?P<word> [\w$]+ )
    | (?P<sign> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_NO_COLUMN = frozenset(
    {
        *("CHECK", "CONSTRAINT", "FOREIGN", "FULLTEXT", "INDEX", "KEY", "PARTITION", "PRIMARY"),
        *("SPATIAL", "UNIQUE"),
    }
)
_GONE = "(gone)"
_NEW = "(new)"

_Word = tuple[str, bool]


@dataclass(frozen=True)
class RemadeColumns:
    """What became of columns, by name in small letters.

    Attributes:
        names: Names that stand for another column than before, if there was one of the name.
        left: Those of them under which there was one: a statement dropped or renamed it.
    """

    names: frozenset[str]
    left: frozenset[str]


@dataclass
class _Changes:
    """What one statement does."""

    left: list[str]
    added: list[tuple[str, bool]]
    renamed: list[tuple[str, str]]

    def rename(self, names: Sequence[str]) -> None:
        if len(names) == 2 and names[0] != names[1]:
            self.left.append(names[0])
            self.renamed.append((names[0], names[1]))


def read_remade_columns(alterations: Iterable[Statement]) -> RemadeColumns:
    """Return which columns are other ones behind ALTER TABLEs than before them."""
    origins: dict[str, str] = {}
    left: set[str] = set()
    for statement in alterations:
        changes = _read(statement.text)
        left.update(changes.left)
        # Every name in a statement is that from before it.
        before = dict(origins)
        origins.update(dict.fromkeys(changes.left, _GONE))
        origins.update({new: before.get(old, old) for old, new in changes.renamed})
        for name, optional in changes.added:
            if not optional or origins.get(name) == _GONE:
                origins[name] = _NEW
    names = frozenset(name for name, origin in origins.items() if origin not in (name, _GONE))
    return RemadeColumns(names, names & left)


def _read(text: str) -> _Changes:
    changes = _Changes([], [], [])
    for item in _split(_body(list(_words(text)))):
        verb = _keyword(item[0])
        rest = _behind(item[1:], "COLUMN")
        conditional = _behind(rest, "IF") != rest
        rest = _behind(rest, "IF", "NOT", "EXISTS")
        names = [name.lower() for name, _ in rest]
        if not rest or _keyword(rest[0]) in _NO_COLUMN:
            continue
        if verb == "ADD":
            made = _split(rest[1:]) if rest[0] == ("(", False) else [rest]
            columns = [each[0] for each in made if _keyword(each[0]) not in _NO_COLUMN]
            changes.added += [(name.lower(), conditional) for name, _ in columns]
        elif verb == "DROP":
            changes.left.append(names[0])
        elif verb == "CHANGE":
            changes.rename(names[:2])
        elif verb == "RENAME" and _keyword(item[1]) == "COLUMN":
            # `old TO new`
            changes.rename(names[:3:2])
    return changes


def _words(text: str) -> Iterator[_Word]:
    """Yield words, signs and what stands between quotes, each with whether it did."""
    for match in _LEXEME.finditer(text):
        if match.lastgroup == "quoted":
            quote = match[0][0]
            yield match[0][1:-1].replace(quote * 2, quote), True
        elif match.lastgroup != "gap":
            yield match[0], False


def _body(words: Sequence[_Word]) -> Sequence[_Word]:
    """Return what stands behind `ALTER TABLE name`."""
    at = next((i for i, word in enumerate(words) if _keyword(word) == "TABLE"), len(words))
    rest = _behind(words[at + 1 :], "IF", "EXISTS")
    dotted = rest[1:2] == [(".", False)]
    return rest[3 if dotted else 1 :]


def _split(words: Sequence[_Word]) -> Iterator[list[_Word]]:
    """Yield what stands between commas, up to the bracket that closes it all."""
    depth, item = 0, list[_Word]()
    for word in words:
        depth += {("(", False): 1, (")", False): -1}.get(word, 0)
        if depth < 0:
            break
        if word == (",", False) and depth == 0:
            if item:
                yield item
            item = []
        else:
            item.append(word)
    if item:
        yield item


def _behind(words: Sequence[_Word], *passed: str) -> Sequence[_Word]:
    at = 0
    while at < len(words) and _keyword(words[at]) in passed:
        at += 1
    return words[at:]


def _keyword(word: _Word) -> str:
    text, quoted = word
    return "" if quoted else text.upper()
