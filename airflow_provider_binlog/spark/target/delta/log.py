"""Log of a Delta table: its commits, and the applied mark that they give its present version.

The mark is that of the last commit with a merge's note. RESTORE takes back rows, and REPLACE TABLE
all of them, but both keep transaction ids, which would claim what the table no longer contains.

Source: the Delta transaction log protocol, "Commit Provenance Information".
"""

# ruff: noqa: SLF001  Hadoop's settings are those of Java's session.

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

from airflow_provider_binlog.errors import MALFORMED, MergeError
from airflow_provider_binlog.spark.target.jvm import java_class
from airflow_provider_binlog.spark.target.protocol import TableChange
from airflow_provider_binlog.spark.target.state import (
    NOTHING,
    Contents,
    ForeignWrite,
    Mark,
    read_foreign_write,
    rows_of_another,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MANAGED = ("catalogManaged", "catalogOwned", "coordinatedCommits")
_STATEMENT_BITS = 21
_SEQUENCE_BITS = 32
# With CREATE OR before, or AS SELECT: another table, whatever its properties say.
_REPLACING = ("REPLACE TABLE", "REPLACE TABLE AS SELECT", "CLONE")
_GENERATION_BITS = 63 - _SEQUENCE_BITS - _STATEMENT_BITS

# Compactions say false of each file, whatever their operation is called.
_DATA_CHANGE = r'"dataChange"\s*:\s*true'
_CHANGES_ROWS = "changesRows"


class Note(NamedTuple):
    """Note of a merge of a source in its commit; it was planned with version `base`, or -1."""

    source: str
    contents: Contents
    base: int


def write_note(change: TableChange[Any]) -> str:
    """Return the note of a change as text; its `stop` is for people."""
    contents = change.contents
    foreign_write = contents.foreign_write
    value = {
        "source": change.owner.source,
        "applied": str(contents.mark),
        "base": -1 if change.base is None else change.base,
        "table": contents.table,
        "snapshot": contents.snapshot or "",
        "stop": change.stop,
        "foreign_write": None if foreign_write is None else asdict(foreign_write),
    }
    return json.dumps(value, ensure_ascii=False)


def find_contents(
    read: Callable[[int], Mapping[str, Any] | None],
    version: int,
    *,
    source: str,
    transaction: int | None,
) -> Contents | str:
    """Return what a version contains, or why that cannot be determined.

    Args:
        read: Returns what the commit of a version says of itself; None if it was cleaned up.
        version: The present one.
        source: Name of the source.
        transaction: The last version of the source's transaction id; None if there is none. It is
            effective where older commits were cleaned up, unless a RESTORE came after them.
    """
    if transaction is None:
        return Contents(NOTHING)
    restored, at, foreign_write = False, version, None
    while at >= 0:
        commit = read(at)
        if commit is None and restored:
            return f"the table was restored, and commit {at} of its log was cleaned up"
        if commit is None:
            break
        note = _find_note(commit)
        if note is not None:
            is_own = note.source == source
            return _check(read, at, note, foreign_write) if is_own else rows_of_another(note.source)
        operation = str(commit.get("operation"))
        if operation.endswith(_REPLACING):
            return f"the table was replaced by commit {at} ({operation})"
        if operation != "RESTORE":
            foreign_write = _find_write(at, commit) or foreign_write
            at -= 1
            continue
        to = _restored_version(commit)
        if to is None or to >= at:
            return (
                f"commit {at} restored the table to a time, and does not say to which version: "
                "RESTORE it again, to the number of that version, or reload it"
            )
        restored, at = True, to
    left = Contents(mark_of(transaction), snapshot=None, foreign_write=foreign_write)
    return Contents(NOTHING) if restored else left


def transaction_version(mark: Mark, stored: int | None) -> int:
    """Return a mark as a version of the transaction id, greater than the one that is stored.

    After a RESTORE a smaller mark is committed again: it gets the next generation, since Delta
    would skip it otherwise.
    """
    if mark.statements >> _STATEMENT_BITS or mark.sequence >> _SEQUENCE_BITS:
        raise MergeError("too many statements in one manifest", applied=mark)
    generation = 0 if stored is None else stored >> (_SEQUENCE_BITS + _STATEMENT_BITS)
    version = _encode(generation, mark)
    if stored is not None and version <= stored:
        version = _encode(generation + 1, mark)
    return version


def mark_of(transaction: int) -> Mark:
    """Return the mark in a version of the transaction id."""
    sequence = transaction >> _STATEMENT_BITS & ((1 << _SEQUENCE_BITS) - 1)
    return Mark(sequence, transaction & ((1 << _STATEMENT_BITS) - 1))


def _encode(generation: int, mark: Mark) -> int:
    if generation >> _GENERATION_BITS:
        raise MergeError("the table was restored too often: reload it", applied=mark)
    return (generation << _SEQUENCE_BITS | mark.sequence) << _STATEMENT_BITS | mark.statements


def _find_note(commit: Mapping[str, Any]) -> Note | None:
    try:
        value = json.loads(commit["userMetadata"])
        contents = Contents(
            Mark.parse(value["applied"]),
            value["table"],
            value["snapshot"],
            read_foreign_write(value.get("foreign_write")),
        )
        return Note(value["source"], contents, int(value["base"]))
    except MALFORMED:
        # Another writer's.
        return None


def _find_write(version: int, commit: Mapping[str, Any]) -> ForeignWrite | None:
    if not commit.get(_CHANGES_ROWS):
        return None
    user = commit.get("userName") or commit.get("engineInfo") or commit.get("clientVersion")
    return ForeignWrite.of(version, commit.get("operation"), user, commit.get("timestamp"))


def _check(
    read: Callable[[int], Mapping[str, Any] | None],
    version: int,
    note: Note,
    later: ForeignWrite | None,
) -> Contents | str:
    """Believe a note unless the table was restored while the merge ran.

    What others wrote meanwhile is not in the note; what they wrote after it is given.
    """
    meanwhile = None
    for between in range(note.base + 1, version):
        commit = read(between) or {}
        if commit.get("operation") == "RESTORE":
            return f"the table was restored by commit {between}, while a merge ran"
        meanwhile = meanwhile or _find_write(between, commit)
    first = note.contents.foreign_write or meanwhile or later
    return replace(note.contents, foreign_write=first)


def _restored_version(commit: Mapping[str, Any]) -> int | None:
    """Return the version that was restored; None if the commit says a time: its zone is unknown."""
    version = commit.get("operationParameters", {}).get("version")
    return None if version is None else int(version)


class Totals(NamedTuple):
    """Data files of a table version, their bytes, and Java's sequence of its transaction ids."""

    files: int
    bytes: int
    transactions: Any


def read_commit(session: SparkSession, snapshot: Any, version: int) -> dict[str, Any] | None:
    """Return what the commit of a version says of itself; None if its file was cleaned up.

    Also, of one that is no merge's, whether it changes rows.
    """
    path = java_class(session, "org.apache.hadoop.fs.Path")(
        snapshot.deltaLog().logPath(), f"{version:020d}.json"
    )
    conf: Any = session._jsparkSession.sessionState().newHadoopConf()
    try:
        stream = path.getFileSystem(conf).open(path)
    except Py4JJavaError as error:
        if error.java_exception.getClass().getSimpleName() == "FileNotFoundException":
            return None
        raise
    reader = java_class(session, "java.io.BufferedReader")(
        java_class(session, "java.io.InputStreamReader")(stream, "UTF-8")
    )
    try:
        # Delta writes it first, others do not: the rest may be long.
        first = reader.readLine() or "{}"
        action: dict[str, Any] = json.loads(first)
        if "commitInfo" in action:
            if _find_note(action["commitInfo"]) is None:
                scanner = java_class(session, "java.util.Scanner")(reader)
                found = scanner.findWithinHorizon(_DATA_CHANGE, 0)
                action["commitInfo"][_CHANGES_ROWS] = found is not None
            return dict(action["commitInfo"])
        io = java_class(session, "org.apache.commons.io.IOUtils")
        rest = io.toString(reader)
    finally:
        reader.close()
    actions = (json.loads(line) for line in rest.splitlines() if '"commitInfo"' in line)
    action = next((own for own in actions if "commitInfo" in own), {})
    changes_rows = re.search(_DATA_CHANGE, first + rest) is not None
    return {**action.get("commitInfo", {}), _CHANGES_ROWS: changes_rows}


def check_commits(protocol: Mapping[str, Any], target: str) -> None:
    """Refuse a table whose newest commits are not in its log, but known to a catalog.

    Source: the Delta transaction log protocol, "Catalog-managed tables".
    """
    managed = [
        feature for feature in protocol.get("writerFeatures") or () if feature.startswith(_MANAGED)
    ]
    if managed:
        raise MergeError(
            "the commits of this Delta table are managed by its catalog: its log may lack the "
            "newest, which say what it contains. Drop the feature, or merge into another table",
            target=target,
            features=", ".join(sorted(managed)),
        )


def find_totals(session: SparkSession, snapshot: Any) -> Totals:
    """Return what a version comes to, without a Spark job if Delta noted that as it committed."""
    checksum = snapshot.checksumOpt()
    if not checksum.isDefined():
        # After a commit of this job Delta has not read what it wrote beside the commit.
        none: Any = java_class(session, "scala.Option").empty()
        checksum = snapshot.deltaLog().readChecksum(snapshot.version(), none)
    if checksum.isDefined() and checksum.get().setTransactions().isDefined():
        noted = checksum.get()
        size, transactions = noted.tableSizeBytes(), noted.setTransactions().get()
        return Totals(int(noted.numFiles()), int(size), transactions)
    files, size = snapshot.numOfFiles(), snapshot.sizeInBytes()
    return Totals(int(files), int(size), snapshot.setTransactions())
