"""What ALTER TABLE and CREATE TABLE do to a table's columns and its key.

A reader of its own, because every word counts here: a parser for many dialects passes over what it
does not know, and over what stands in version comments, and each of these may move a column. What
is not understood is said to be `Opaque`.

Source: mysql-server, sql/sql_yacc.yy, alter_list_item and table_element; mariadb, the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.schema_history.definitions import (
    Definition,
    outer_texts,
    read_definition,
)
from airflow_provider_binlog.schema_history.words import Reader, Word, capitals

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_provider_binlog.schema_history.facts import Facts

FIRST = ""
"""In place of the column that another one comes after: no column has an empty name."""


@dataclass(frozen=True)
class AddColumn:
    """`ADD COLUMN name ... [FIRST | AFTER column]`.

    Attributes:
        name: Of the new column.
        facts: What the definition says.
        after: The column it comes after, or `FIRST`; None for the end.
        optional: IF NOT EXISTS.
    """

    name: str
    facts: Facts
    after: str | None = None
    optional: bool = False


@dataclass(frozen=True)
class DropColumn:
    """`DROP COLUMN name`; optional: IF EXISTS."""

    name: str
    optional: bool = False


@dataclass(frozen=True)
class ChangeColumn:
    """`CHANGE COLUMN old name ...`, and `MODIFY COLUMN name ...`, where both names are the same.

    Attributes:
        old, name: Before and after.
        facts: What the definition says.
        after: As in `AddColumn`; None where it stays.
        optional: IF EXISTS.
    """

    old: str
    name: str
    facts: Facts
    after: str | None = None
    optional: bool = False


@dataclass(frozen=True)
class RenameColumn:
    """`RENAME COLUMN old TO name`."""

    old: str
    name: str


@dataclass(frozen=True)
class ChangeDefault:
    """`ALTER COLUMN name SET DEFAULT ...`, and `DROP DEFAULT`: no more is known of its default."""

    name: str


@dataclass(frozen=True)
class AddPrimaryKey:
    """A primary key is made: (column, characters of a prefix or 0) in key order."""

    columns: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class DropPrimaryKey:
    """The primary key goes."""


@dataclass(frozen=True)
class ChangeIndexes:
    """A unique key comes, or an index goes that may be one."""


@dataclass(frozen=True)
class ConvertCharset:
    """`CONVERT TO CHARACTER SET`: of every column of text; None where it names the default."""

    charset: str | None


@dataclass(frozen=True)
class Opaque:
    """Something that may change columns, and is not understood."""

    text: str


Alteration: TypeAlias = (
    AddColumn
    | DropColumn
    | ChangeColumn
    | RenameColumn
    | ChangeDefault
    | AddPrimaryKey
    | DropPrimaryKey
    | ChangeIndexes
    | ConvertCharset
    | Opaque
)

# What ends the list of alterations, and changes no column.
_PARTITIONING = frozenset(
    {
        *("ANALYZE", "CHECK", "COALESCE", "DISCARD", "EXCHANGE", "IMPORT", "OPTIMIZE"),
        *("PARTITION", "REBUILD", "REMOVE", "REORGANIZE", "REPAIR", "TRUNCATE", "UPGRADE"),
    }
)
# Alterations that change no column, by their first word; then the options of tables.
_NOTHING = frozenset(
    {
        *("ALGORITHM", "DISABLE", "ENABLE", "FORCE", "LOCK", "WITH", "WITHOUT"),
        *("SECONDARY_LOAD", "SECONDARY_UNLOAD"),
        *("AUTOEXTEND_SIZE", "AUTO_INCREMENT", "AVG_ROW_LENGTH", "CHARACTER", "CHARSET"),
        *("CHECKSUM", "COLLATE", "COMMENT", "COMPRESSION", "CONNECTION", "DATA", "DEFAULT"),
        *("DELAY_KEY_WRITE", "ENCRYPTED", "ENCRYPTION", "ENCRYPTION_KEY_ID", "ENGINE"),
        *("ENGINE_ATTRIBUTE", "IETF_QUOTES", "INDEX", "INSERT_METHOD", "KEY_BLOCK_SIZE"),
        *("MAX_ROWS", "MIN_ROWS", "PACK_KEYS", "PAGE_CHECKSUM", "PAGE_COMPRESSED"),
        *("PAGE_COMPRESSION_LEVEL", "PASSWORD", "ROW_FORMAT", "SECONDARY_ENGINE"),
        *("SECONDARY_ENGINE_ATTRIBUTE", "SEQUENCE", "START", "STATS_AUTO_RECALC"),
        *("STATS_PERSISTENT", "STATS_SAMPLE_PAGES", "STORAGE", "TABLESPACE", "TRANSACTIONAL"),
        *("TYPE", "UNION"),
    }
)
_PLAIN_KEYS = frozenset({"INDEX", "KEY", "FULLTEXT", "SPATIAL", "FOREIGN", "CHECK"})
# Behind a column of ORDER BY and a comma, these go on with the list of alterations.
_REPEATED = frozenset({"ADD", "ALTER", "CHANGE", "CONVERT", "DROP", "MODIFY", "RENAME"})
_ORDER_ITEM = 2
_SHOWN = 60


def read_alterations(words: Sequence[Word]) -> tuple[Alteration, ...]:
    """Return what the words behind `ALTER TABLE t` do, in their order.

    New names of the table itself are no alteration: `statements.describe` tells them.
    """
    return tuple(_alterations(words))


def read_elements(words: Sequence[Word]) -> tuple[Alteration, ...]:
    """Return what stands between the brackets of CREATE TABLE or ADD: columns and keys."""
    return tuple(each for chunk in _chunks(words) for each in _element(chunk))


def _alterations(words: Sequence[Word]) -> Iterator[Alteration]:
    in_order = False
    for chunk in _chunks(_without_partitioning(words)):
        first = _upper(chunk[0]) if chunk else ""
        if in_order and len(chunk) <= _ORDER_ITEM and first not in _REPEATED:
            continue  # the further columns of ORDER BY
        in_order = first == "ORDER"
        if in_order:
            continue
        if first in _PARTITIONING:
            return
        try:
            yield from _alteration(Reader(chunk), first, chunk)
        except UnsupportedError:
            yield _opaque(chunk)


def _without_partitioning(words: Sequence[Word]) -> Sequence[Word]:
    """Return what stands before `PARTITION BY` and `REMOVE PARTITIONING`: no comma parts them."""
    depth = 0
    for index, word in enumerate(words[:-1]):
        depth += (word == Word("(")) - (word == Word(")"))
        pair = (_upper(word), _upper(words[index + 1]))
        if depth == 0 and index and pair in (("PARTITION", "BY"), ("REMOVE", "PARTITIONING")):
            return words[:index]
    return words


def _alteration(reader: Reader, first: str, chunk: Sequence[Word]) -> Iterator[Alteration]:
    if first == "ADD":
        reader.take("ADD")
        yield from _add(reader, chunk)
    elif first == "DROP":
        reader.take("DROP")
        yield from _drop(reader, chunk)
    elif first in ("CHANGE", "MODIFY"):
        yield from _change(reader)
    elif first == "RENAME":
        yield from _rename(reader)
    elif first == "CONVERT":
        yield from _convert(chunk)
    elif first == "ALTER":
        yield from _change_default(reader)
    elif first not in _NOTHING or _hides_alteration(chunk):
        yield _opaque(chunk)


def _hides_alteration(chunk: Sequence[Word]) -> bool:
    """Whether words stand in it that change columns, where none are expected."""
    hidden = {"ADD", "CHANGE", "DROP", "MODIFY", "RENAME", "VERSIONING"}
    return not hidden.isdisjoint(outer_texts(chunk)[1:])


def _add(reader: Reader, chunk: Sequence[Word]) -> Iterator[Alteration]:
    texts = outer_texts(chunk)[1:3]
    if texts[:1] == ["PARTITION"]:
        return
    if texts in (["SYSTEM", "VERSIONING"], ["PERIOD", "FOR"]):
        yield _opaque(chunk)
        return
    column = reader.take("COLUMN")
    optional = _condition(reader)
    rest = reader.rest()
    if rest and rest[0] == Word("("):
        if rest[-1] != Word(")") or optional:
            yield _opaque(chunk)
            return
        yield from read_elements(rest[1:-1])
    elif column:
        yield from _column(Reader(rest), optional=optional)
    else:
        yield from _element(rest, optional=optional)


def _element(chunk: Sequence[Word], *, optional: bool = False) -> Iterator[Alteration]:
    """Read a column or a key."""
    try:
        yield from _key_or_column(chunk, optional=optional)
    except UnsupportedError:
        yield _opaque(chunk)


def _key_or_column(chunk: Sequence[Word], *, optional: bool) -> Iterator[Alteration]:
    texts = outer_texts(chunk)
    first, second = (*texts, "", "")[:2]
    if first == "CONSTRAINT":
        texts = [each for each in texts[1:3] if each in ("PRIMARY", "UNIQUE", "FOREIGN", "CHECK")]
        first = texts[0] if texts else "?"
    if "IF" in texts[:4]:
        yield _opaque(chunk)
    elif first == "PRIMARY":
        yield AddPrimaryKey(_key_columns(chunk))
    elif first == "UNIQUE":
        yield ChangeIndexes()
    elif first in _PLAIN_KEYS or (first == "VECTOR" and second in ("INDEX", "KEY")):
        return
    elif first == "?" or (first == "PERIOD" and second == "FOR"):
        yield _opaque(chunk)
    else:
        yield from _column(Reader(chunk), optional=optional)


def _column(reader: Reader, *, optional: bool = False) -> Iterator[Alteration]:
    name = reader.name()
    definition, after = _definition(reader.rest())
    if optional and definition.primary:
        raise UnsupportedError("a key that may be there already")
    yield AddColumn(name, definition.facts, after, optional)
    yield from _own_keys(name, definition)


def _change(reader: Reader) -> Iterator[Alteration]:
    modify = reader.take("CHANGE", "MODIFY") == "MODIFY"
    reader.take("COLUMN")
    optional = _condition(reader)
    old = reader.name()
    name = old if modify else reader.name()
    definition, after = _definition(reader.rest())
    yield ChangeColumn(old, name, definition.facts, after, optional)
    yield from _own_keys(name, definition)


def _own_keys(name: str, definition: Definition) -> Iterator[Alteration]:
    if definition.primary:
        yield AddPrimaryKey(((name, 0),))
    if definition.unique:
        yield ChangeIndexes()


def _definition(words: Sequence[Word]) -> tuple[Definition, str | None]:
    """Return what a definition says, and the column it puts its own after."""
    after = None
    # Behind the other words it names a table or a sequence.
    before = _upper(words[-2]) if len(words) > 1 else ""
    if before == "AFTER":
        after, words = Reader(words[-1:]).name(), words[:-2]
    elif words and _upper(words[-1]) == "FIRST" and before not in ("REFERENCES", "FOR", "."):
        after, words = FIRST, words[:-1]
    texts = outer_texts(words)
    if not texts or "AFTER" in texts or "FIRST" in texts:
        raise UnsupportedError("a column whose place is not clear")
    return read_definition(words), after


def _drop(reader: Reader, chunk: Sequence[Word]) -> Iterator[Alteration]:
    what = reader.take(
        *("PRIMARY", "INDEX", "KEY", "FOREIGN", "CHECK", "CONSTRAINT", "PARTITION", "COLUMN")
    )
    if what is None and outer_texts(chunk)[1:3] in (["SYSTEM", "VERSIONING"], ["PERIOD", "FOR"]):
        yield _opaque(chunk)
        return
    if what == "PRIMARY":
        yield DropPrimaryKey()
        return
    if what in ("FOREIGN", "CHECK", "PARTITION"):
        return
    optional = _condition(reader)
    name = reader.name()
    reader.take("RESTRICT", "CASCADE")
    if reader.rest():
        yield _opaque(chunk)
    elif what in ("INDEX", "KEY", "CONSTRAINT"):
        yield drop_index(name)
    else:
        yield DropColumn(name, optional)


def drop_index(name: str) -> Alteration:
    """Return what dropping the index of this name does."""
    return DropPrimaryKey() if name.upper() == "PRIMARY" else ChangeIndexes()


def _rename(reader: Reader) -> Iterator[Alteration]:
    reader.take("RENAME")
    if reader.take("COLUMN"):
        if _condition(reader):
            raise UnsupportedError("a column that may not be there")
        old = reader.name()
        if not reader.take("TO"):
            raise UnsupportedError("a column without a new name")
        yield RenameColumn(old, reader.name())


def _convert(chunk: Sequence[Word]) -> Iterator[Alteration]:
    texts = outer_texts(chunk)
    if texts[1:2] != ["TO"]:
        return  # a partition, or a table that becomes one
    named = texts[4:5] if texts[2:4] == ["CHARACTER", "SET"] else texts[3:4]
    charset = named[0].lower() if named else ""
    known = charset and charset not in ("default", "utf8")
    yield ConvertCharset(charset if known else None)


def _change_default(reader: Reader) -> Iterator[Alteration]:
    reader.take("ALTER")
    if reader.take("INDEX", "KEY", "CHECK", "CONSTRAINT"):
        return  # whether it is visible, or enforced
    reader.take("COLUMN")
    _condition(reader)
    yield ChangeDefault(reader.name())


def _condition(reader: Reader) -> bool:
    """Go behind IF EXISTS and IF NOT EXISTS."""
    if not reader.take("IF"):
        return False
    reader.take("NOT")
    if not reader.take("EXISTS"):
        raise UnsupportedError("IF without EXISTS")
    return True


def _key_columns(chunk: Sequence[Word]) -> tuple[tuple[str, int], ...]:
    """Return the columns between the first brackets: `(a, b(10) DESC)`."""
    begin = next((i for i, word in enumerate(chunk) if word == Word("(")), len(chunk))
    end = _closing(chunk, begin)
    columns = []
    for part in _chunks(chunk[begin + 1 : end]):
        reader = Reader(part)
        name, prefix = reader.name(), 0
        if reader.take("("):
            prefix = _number(reader.name())
        columns.append((name, prefix))
    if not columns:
        raise UnsupportedError("a key without columns")
    return tuple(columns)


def _number(digits: str) -> int:
    try:
        return int(digits)
    except ValueError as error:
        raise UnsupportedError("a prefix of a key that is no number") from error


def _closing(words: Sequence[Word], begin: int) -> int:
    """Return where the bracket ends that opens at `begin`."""
    depth = 0
    for index in range(begin, len(words)):
        depth += (words[index] == Word("(")) - (words[index] == Word(")"))
        if depth == 0:
            return index
    raise UnsupportedError("a bracket that does not end")


def brackets(words: Sequence[Word]) -> tuple[Sequence[Word], Sequence[Word]]:
    """Return what stands between the brackets that the words begin with, and what is behind.

    Raises:
        UnsupportedError: They do not begin with a bracket, or it does not end.
    """
    if not words or words[0] != Word("("):
        raise UnsupportedError("no bracket")
    end = _closing(words, 0)
    return words[1:end], words[end + 1 :]


def _chunks(words: Sequence[Word]) -> Iterator[Sequence[Word]]:
    """Yield what stands between the commas outside of brackets."""
    begin = depth = 0
    for index, word in enumerate(words):
        depth += (word == Word("(")) - (word == Word(")"))
        if depth == 0 and word == Word(","):
            yield words[begin:index]
            begin = index + 1
    if begin < len(words):
        yield words[begin:]


def _upper(word: Word) -> str:
    return "" if word.quote else capitals(word.text)


def _opaque(chunk: Sequence[Word]) -> Opaque:
    return Opaque(" ".join(word.text for word in chunk)[:_SHOWN])
