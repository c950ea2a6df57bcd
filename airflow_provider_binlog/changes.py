"""The columns of a staged change row besides those of its table, and the choices of values.

A part is a Parquet file whose columns are the table's, in its order, then `CHANGE_COLUMNS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

CHANGE_TYPE = "_change_type"
"""One of `ChangeType`, as text."""

COMMIT_TS = "_commit_ts"
"""Commit time of the transaction, microseconds in UTC. MariaDB's are whole seconds."""

GTID = "_gtid"
"""`uuid:number`, `uuid:tag:number` or MariaDB's `domain-server-number`. Null where the
transaction has none (`gtid_mode=OFF`)."""

FILE = "_file"
"""Name of the binlog file that holds the event; of an XA transaction in two phases, the XA COMMIT
that made its changes visible."""

POSITION = "_pos"
"""Offset of the event in that file, in bytes: what mysqlbinlog prints after `# at`."""

ROW = "_row"
"""Orders the changes of one manifest, and no two rows of one manifest share it.
The upper bits number the binlog files from the manifest's first one; the lower 44 are the offset of
the row image in that file, counted with all its events uncompressed."""

IMAGE = "_image"
"""Number of the set of columns present in this row image, as listed in the manifest.
A column outside the set is absent, which is not NULL."""

CHANGE_COLUMNS = (CHANGE_TYPE, COMMIT_TS, GTID, FILE, POSITION, ROW, IMAGE)
"""The change columns, in the order of a part's columns."""

ROW_FILE_SHIFT = 44
"""`_row` is `(file number << ROW_FILE_SHIFT) + offset of the row image in that file`."""


class ChangeType(StrEnum):
    """The change of a row, in the words of Delta's change data feed and Iceberg's changelogs."""

    INSERT = "insert"
    UPDATE_PREIMAGE = "update_preimage"
    UPDATE_POSTIMAGE = "update_postimage"
    DELETE = "delete"


class OnTableError(StrEnum):
    """The effect of a captured table that cannot be decoded or followed."""

    QUARANTINE = "quarantine"
    """The range has none of its changes, and the manifest says so; the others are staged."""
    FAIL = "fail"
    """The range is not staged."""


class BeforeImages(StrEnum):
    """The before-images of updates that are staged.

    `KEY_CHANGES` keeps those whose key differs from the after-image's, which is all that a
    merge needs; tables without a key keep every one of them. `ALL` keeps all, for audit.
    """

    KEY_CHANGES = "key_changes"
    ALL = "all"


class ZeroDates(StrEnum):
    """Staging of zero dates and invalid dates: `0000-00-00`, `2026-02-31`, a month or day of 0.

    Under `NULL` they are staged as null, and counted. Under `FAIL` they are refused. Under `TEXT`
    every DATE, DATETIME and TIMESTAMP is staged as the text that SELECT prints.
    """

    NULL = "null"
    FAIL = "fail"
    TEXT = "text"


class InvalidText(StrEnum):
    """Staging of invalid byte sequences of a text column.

    Under `FAIL` they are refused. Under `REPLACE` each is staged as U+FFFD, and the values
    are counted. Under `BINARY` every text column is staged as the bytes that the source holds, in
    the column's character set.
    """

    FAIL = "fail"
    REPLACE = "replace"
    BINARY = "binary"


DECIMAL_DIGITS_MAX = 38
"""Digits of a decimal128, the widest decimal that lakes know: wider ones are staged as text."""


@dataclass(frozen=True)
class Policies:
    """Choices for a whole range where there is more than one right way to stage it.

    They decide the staged type of a column, which never depends on its values.
    """

    zero_dates: ZeroDates = ZeroDates.NULL
    invalid_text: InvalidText = InvalidText.FAIL


DEFAULT_POLICIES = Policies()
