"""What ALTER TABLE does besides changing columns and keys: options, partitions, tablespaces.

Source: mysql-server, sql/sql_yacc.yy, standalone_alter_commands and create_table_option; mariadb,
alter_commands and create_table_option.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_binlog.sql.lexer import Word, capitals, keyword

if TYPE_CHECKING:
    from collections.abc import Sequence

TABLE_OPTIONS = frozenset(
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
_ROWS = {
    ("CONVERT", "PARTITION"): "converted a partition to a table",
    ("CONVERT", "TABLE"): "converted a table to a partition",
    ("DISCARD", "PARTITION"): "discarded the tablespace of a partition",
    ("DISCARD", "TABLESPACE"): "discarded the tablespace",
    ("DROP", "PARTITION"): "dropped a partition",
    ("EXCHANGE", "PARTITION"): "exchanged a partition with a table",
    ("IMPORT", "PARTITION"): "imported the tablespace of a partition",
    ("IMPORT", "TABLESPACE"): "imported a tablespace",
    ("TRUNCATE", "PARTITION"): "truncated a partition",
}
# Storage engines that keep the rows that a table is given, and have none from elsewhere.
_ENGINES = frozenset(
    {
        *("ARCHIVE", "ARIA", "COLUMNSTORE", "CSV", "HEAP", "INNODB", "MARIA", "MEMORY", "MROONGA"),
        *("MYISAM", "NDB", "NDBCLUSTER", "ROCKSDB", "TOKUDB"),
    }
)
_ENGINE_SHOWN = 20


def ends_list(chunk: Sequence[Word]) -> bool:
    """Whether the commas from here on part the names of partitions."""
    texts = [keyword(word) for word in chunk[:2]]
    return texts == ["DROP", "PARTITION"] or (bool(texts) and texts[0] in _PARTITIONING)


def row_loss(chunk: Sequence[Word]) -> str | None:
    """Return what one alteration does to rows without row events; None if it keeps all of them."""
    texts = [keyword(word) for word in chunk]
    if texts and texts[0] in TABLE_OPTIONS:
        return foreign_rows(chunk)
    return _ROWS.get((texts[0], texts[1])) if len(texts) > 1 else None


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
