"""Reads what ALTER TABLE and CREATE TABLE do to a table's columns, its key and its rows.

Every word counts here: a parser for many dialects skips what it does not know, and also what
is in version comments, and each of these may move a column. What is not understood is `Opaque`.

Source: mysql-server, sql/sql_yacc.yy, alter_list_item and table_element; mariadb, the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.names import fold_name
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.sql import definitions as sql
from airflow_provider_binlog.sql.defaults import read_literal
from airflow_provider_binlog.sql.lexer import (
    Reader,
    Session,
    Word,
    capitals,
    chunks,
    closing,
    keyword,
    outer_texts,
    outer_words,
)

# ------------------------------------------------------------------- options, partitions

_OPTIONS = frozenset(
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
"""Alterations that change no column, by their first word; then the options of tables."""

_PARTITIONING = frozenset(
    {
        *("ANALYZE", "CHECK", "COALESCE", "DISCARD", "EXCHANGE", "IMPORT", "OPTIMIZE"),
        *("PARTITION", "REBUILD", "REMOVE", "REORGANIZE", "REPAIR", "TRUNCATE", "UPGRADE"),
    }
)
# What is done to rows without row events, by its first two words.
_OF_ROWS = frozenset(
    {
        *(("CONVERT", "PARTITION"), ("CONVERT", "TABLE"), ("DISCARD", "PARTITION")),
        *(("DISCARD", "TABLESPACE"), ("DROP", "PARTITION"), ("EXCHANGE", "PARTITION")),
        *(("IMPORT", "PARTITION"), ("IMPORT", "TABLESPACE"), ("TRUNCATE", "PARTITION")),
    }
)
# Storage engines that keep the rows that a table is given, and have none from elsewhere.
_ENGINES = frozenset(
    {
        *("ARCHIVE", "ARIA", "COLUMNSTORE", "CSV", "HEAP", "INNODB", "MARIA", "MEMORY", "MROONGA"),
        *("MYISAM", "NDB", "NDBCLUSTER", "ROCKSDB", "TOKUDB"),
    }
)
_ENGINE_SHOWN = 20


def _ends_list(chunk: Sequence[Word]) -> bool:
    """Whether the commas from here on part the names of partitions."""
    texts = [keyword(word) for word in chunk[:2]]
    return texts == ["DROP", "PARTITION"] or (bool(texts) and texts[0] in _PARTITIONING)


def _row_loss(chunk: Sequence[Word]) -> str | None:
    """Return what one alteration does to rows without row events; None if it keeps all of them."""
    words = tuple(keyword(word) for word in chunk[:2])
    if words and words[0] in _OPTIONS:
        return foreign_rows(chunk)
    return f"ran {' '.join(words)}" if words in _OF_ROWS else None


def foreign_rows(options: Sequence[Word]) -> str | None:
    """Return why a table with these options does not hold the rows that it is given."""
    texts = [keyword(word) for word in options]
    for index, text in enumerate(texts):
        at = index + 2 if options[index + 1 : index + 2] == [Word("=")] else index + 1
        value = capitals(options[at].text) if at < len(options) else ""
        if text in ("ENGINE", "TYPE") and value not in _ENGINES:
            return f"gave the table the storage engine {value[:_ENGINE_SHOWN]}"
        if text in ("CONNECTION", "UNION"):
            return f"gave the table the option {text}"
    return None


def read_comment(options: Sequence[Word]) -> Iterator[sql.SetComment]:
    """Yield the comment among the options of a table: partitions have theirs in brackets."""
    reader = Reader(options)
    while reader.peek() != Word(""):
        if reader.skip_brackets() is None and keyword(reader.next() or Word("")) == "COMMENT":
            yield sql.SetComment(sql.table_comment(sql.read_text(reader)))


# ------------------------------------------------------------------- columns, keys

_PLAIN_KEYS = frozenset({"INDEX", "KEY", "FULLTEXT", "SPATIAL", "FOREIGN", "CHECK"})
# After `CONSTRAINT [IF NOT EXISTS] [name]`.
_CONSTRAINTS = frozenset({"PRIMARY", "UNIQUE", "FOREIGN", "CHECK"})
_SHOWN = 60


def read_alterations(
    words: Sequence[Word], session: Session, *, ignore: bool = False
) -> tuple[sql.Alteration, ...]:
    """Return what the words after `ALTER TABLE t` do, in their order, up to the statement's end.

    New names of the table itself are no alteration: they are in `ddl.Renamed`. Under ALTER IGNORE
    TABLE rows that do not fit are changed or removed.
    """
    read = tuple(_alterations(words, session))
    if ignore:
        read = (sql.RewriteRows("ran under ALTER IGNORE TABLE"), *read)
    return _with_key(read, session)


def read_elements(words: Sequence[Word], session: Session) -> tuple[sql.Alteration, ...]:
    """Return what is in the brackets of CREATE TABLE or ADD: columns and keys."""
    read: list[sql.Alteration] = []
    for chunk in chunks(words):
        try:
            read.extend(_element(chunk, session))
        except UnsupportedError:
            read.append(_opaque(chunk))
    return _with_key(tuple(read), session)


def _with_key(read: tuple[sql.Alteration, ...], session: Session) -> tuple[sql.Alteration, ...]:
    """Return alterations whose new columns of the primary key are NOT NULL."""
    keyed = sql.new_key(read)
    return tuple(
        replace(
            added, initial_default=sql.initial_default(added.definition, session, nullable=False)
        )
        if isinstance(added, sql.AddColumn) and fold_name(added.name) in keyed
        else added
        for added in read
    )


def _alterations(words: Sequence[Word], session: Session) -> Iterator[sql.Alteration]:
    for chunk in chunks(_without_partitioning(words)):
        reason = _row_loss(chunk)
        if reason is not None:
            yield sql.RewriteRows(reason)
        if _ends_list(chunk):
            return
        try:
            yield from _alteration(chunk, session)
        except UnsupportedError:
            yield _opaque(chunk)


def _without_partitioning(words: Sequence[Word]) -> Sequence[Word]:
    """Return the words before `PARTITION BY` and `REMOVE PARTITIONING`: no comma parts them."""
    for index, word in outer_words(words[:-1]):
        pair = (keyword(word), keyword(words[index + 1]))
        if index and pair in (("PARTITION", "BY"), ("REMOVE", "PARTITIONING")):
            return words[:index]
    return words


def _alteration(chunk: Sequence[Word], session: Session) -> Iterator[sql.Alteration]:
    reader = Reader(chunk)
    first = reader.take("ADD", "DROP", "CHANGE", "MODIFY", "RENAME", "CONVERT", "ALTER")
    if first == "ADD":
        yield from _add(reader, chunk, session)
    elif first == "DROP":
        yield from _drop(reader, chunk)
    elif first in ("CHANGE", "MODIFY"):
        yield from _change(reader, session, modify=first == "MODIFY")
    elif first == "RENAME":
        yield from _rename(reader)
    elif first == "CONVERT":
        yield from _convert(chunk, session)
    elif first == "ALTER":
        yield from _set_default(reader)
    elif not _is_option(chunk) or _hides_alteration(chunk):
        yield _opaque(chunk)
    else:
        yield from read_comment(chunk)


def _is_option(chunk: Sequence[Word]) -> bool:
    """Whether it sets an option of the table: one in quotes is of MariaDB's storage engine."""
    of_engine = chunk[1:2] == [Word("=")] and bool(chunk[0].quote)
    return of_engine or (bool(chunk) and keyword(chunk[0]) in _OPTIONS)


def _hides_alteration(chunk: Sequence[Word]) -> bool:
    """Whether words are in it that change columns, where none are expected."""
    hidden = {"ADD", "CHANGE", "DROP", "MODIFY", "RENAME", "VERSIONING"}
    return not hidden.isdisjoint(outer_texts(chunk)[1:])


def _add(reader: Reader, chunk: Sequence[Word], session: Session) -> Iterator[sql.Alteration]:
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
        elements = read_elements(rest[1:-1], session)
        columns = all(isinstance(element, sql.AddColumn) for element in elements)
        if rest[-1] != Word(")") or (optional and not columns):
            yield _opaque(chunk)
            return
        for element in elements:
            if isinstance(element, sql.AddColumn):
                yield replace(element, optional=optional)
            else:
                yield element
    elif column:
        yield from _column(Reader(rest), session, optional=optional)
    else:
        yield from _element(rest, session, optional=optional)


def _element(
    chunk: Sequence[Word], session: Session, *, optional: bool = False
) -> Iterator[sql.Alteration]:
    """Read a column or a key."""
    texts = outer_texts(chunk)
    first, second = (*texts, "", "")[:2]
    if first == "CONSTRAINT":
        first = next((text for text in texts[1:6] if text in _CONSTRAINTS), "?")
    if first == "UNIQUE":
        yield sql.ChangeIndexes()
    elif first in _PLAIN_KEYS or (first == "VECTOR" and second in ("INDEX", "KEY")):
        return
    elif first in ("?", "IF") or (first == "PERIOD" and second in ("FOR", "IF")):
        yield _opaque(chunk)
    elif first == "PRIMARY":
        # The one that may be there already may be of other columns.
        yield _opaque(chunk) if "IF" in texts[:5] else sql.AddPrimaryKey(_key_columns(chunk))
    else:
        yield from _column(Reader(chunk), session, optional=optional)


def _column(
    reader: Reader, session: Session, *, optional: bool = False
) -> Iterator[sql.Alteration]:
    name = reader.name()
    definition, after = _definition(reader.rest(), session)
    if optional and definition.primary:
        raise UnsupportedError("a key that may be there already")
    yield sql.AddColumn(name, definition, sql.initial_default(definition, session), after, optional)
    yield from _own_keys(name, definition)


def _change(reader: Reader, session: Session, *, modify: bool) -> Iterator[sql.Alteration]:
    reader.take("COLUMN")
    optional = _condition(reader)
    old = reader.name()
    name = old if modify else reader.name()
    definition, after = _definition(reader.rest(), session)
    yield sql.ChangeColumn(old, name, definition, after, optional)
    yield from _own_keys(name, definition)


def _own_keys(name: str, definition: sql.Definition) -> Iterator[sql.Alteration]:
    if definition.primary:
        yield sql.AddPrimaryKey(((name, 0),))
    if definition.unique:
        yield sql.ChangeIndexes()


def _definition(words: Sequence[Word], session: Session) -> tuple[sql.Definition, str | None]:
    """Return what a definition says, and the column it puts its own after."""
    after = None
    # After the other words it names a table or a sequence.
    before = keyword(words[-2]) if len(words) > 1 else ""
    if before == "AFTER":
        after, words = Reader(words[-1:]).name(), words[:-2]
    elif words and keyword(words[-1]) == "FIRST" and before not in ("REFERENCES", "FOR", "."):
        after, words = sql.FIRST, words[:-1]
    texts = outer_texts(words)
    if not texts or "AFTER" in texts or "FIRST" in texts:
        raise UnsupportedError("a column whose place is not clear")
    return sql.read_definition(words, session), after


def _drop(reader: Reader, chunk: Sequence[Word]) -> Iterator[sql.Alteration]:
    what = reader.take(
        *("PRIMARY", "INDEX", "KEY", "FOREIGN", "CHECK", "CONSTRAINT", "PARTITION", "COLUMN")
    )
    if what is None and outer_texts(chunk)[1:3] in (["SYSTEM", "VERSIONING"], ["PERIOD", "FOR"]):
        yield _opaque(chunk)
        return
    if what == "PRIMARY":
        yield sql.DropPrimaryKey()
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
        yield sql.DropColumn(name, optional)


def drop_index(name: str) -> sql.Alteration:
    """Return what dropping the index of this name does."""
    return sql.DropPrimaryKey() if name.upper() == "PRIMARY" else sql.ChangeIndexes()


def _rename(reader: Reader) -> Iterator[sql.Alteration]:
    if reader.take("COLUMN"):
        optional = _condition(reader)
        old = reader.name()
        if not reader.take("TO"):
            raise UnsupportedError("a column without a new name")
        yield sql.RenameColumn(old, reader.name(), optional)


def _convert(chunk: Sequence[Word], session: Session) -> Iterator[sql.Alteration]:
    texts = outer_texts(chunk)
    if texts[1:2] != ["TO"]:
        return  # a partition, or a table that becomes one
    named = texts[4:5] if texts[2:4] == ["CHARACTER", "SET"] else texts[3:4]
    charset = named[0].lower() if named else ""
    if charset == "utf8" and session.flavor is Flavor.MYSQL:
        charset = "utf8mb3"  # on MariaDB it may be utf8mb4: old_mode, which is not logged, decides
    known = charset and charset not in ("default", "utf8")
    yield sql.ConvertCharset(charset if known else None)


def _set_default(reader: Reader) -> Iterator[sql.Alteration]:
    if reader.take("INDEX", "KEY", "CHECK", "CONSTRAINT"):
        return  # whether it is visible, or enforced
    reader.take("COLUMN")
    optional = _condition(reader)
    name = reader.name()
    literal = None
    if reader.take("SET"):
        if not reader.take("DEFAULT"):
            yield sql.SetDefault(name, None, optional)  # VISIBLE and INVISIBLE
            return
        literal = read_literal(reader.rest())
    yield sql.SetDefault(name, literal, optional)


def _condition(reader: Reader) -> bool:
    """Move past IF EXISTS and IF NOT EXISTS."""
    if not reader.take("IF"):
        return False
    reader.take("NOT")
    if not reader.take("EXISTS"):
        raise UnsupportedError("IF without EXISTS")
    return True


def _key_columns(chunk: Sequence[Word]) -> tuple[tuple[str, int], ...]:
    """Return the columns between the first brackets: `(a, b(10) DESC)`."""
    start = next((i for i, word in enumerate(chunk) if word == Word("(")), len(chunk))
    end = closing(chunk, start)
    columns = []
    for part in chunks(chunk[start + 1 : end]):
        reader = Reader(part)
        name, prefix = reader.name(), 0
        if reader.take("("):
            digits = reader.name()
            if not digits.isdecimal():
                raise UnsupportedError("a prefix of a key that is no number")
            prefix = int(digits)
            reader.take(")")
        reader.take("ASC", "DESC")
        if reader.rest():
            raise UnsupportedError("a key of more than columns, such as a period WITHOUT OVERLAPS")
        columns.append((name, prefix))
    if not columns:
        raise UnsupportedError("a key without columns")
    return tuple(columns)


def _opaque(chunk: Sequence[Word]) -> sql.Opaque:
    return sql.Opaque(" ".join(map(_shown, chunk))[:_SHOWN])


def _shown(word: Word) -> str:
    """Return a word for messages: `?` for a literal."""
    is_literal = word.quote in ("'", '"') or word.text[:1].isdigit()
    return "?" if is_literal and word.quote != "`" else word.text
