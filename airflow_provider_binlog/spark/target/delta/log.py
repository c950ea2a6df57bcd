"""Log of a Delta table: its commits, and the applied mark that they give its present version.

Each merge commits a note with its mark. OPTIMIZE, ALTER TABLE and writes of others commit none: the
mark is that of the last commit with a note. RESTORE takes back rows, and REPLACE TABLE all of them,
but both keep transaction ids, so those alone would claim what the table no longer contains.

Source: the Delta transaction log protocol, "Commit Provenance Information".
"""

# ruff: noqa: SLF001  Hadoop's settings are those of Java's session.

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

from airflow_provider_binlog.errors import MALFORMED, MergeError
from airflow_provider_binlog.spark.target.jvm import java_class
from airflow_provider_binlog.spark.target.state import NOTHING, Contents, Mark, rows_of_another

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

_MANAGED = ("catalogManaged", "catalogOwned", "coordinatedCommits")
_STATEMENT_BITS = 21
_SEQUENCE_BITS = 32
# With CREATE OR before, or AS SELECT: another table, whatever its properties say.
_REPLACING = ("REPLACE TABLE", "REPLACE TABLE AS SELECT", "CLONE")
_GENERATION_BITS = 63 - _SEQUENCE_BITS - _STATEMENT_BITS


class CommitLog(Protocol):
    """The commits of one table."""

    def read(self, version: int) -> Mapping[str, Any] | None:
        """Return what the commit of a version says of itself; None if its file was cleaned up."""


@dataclass(frozen=True)
class Note:
    """Note of a merge in its commit.

    Attributes:
        source: Name of the source.
        mark: How much of the log the table contains with this commit.
        base: The version of the table that the merge was planned with.
        table: Id of the table whose rows it has then.
        snapshot: Id of the snapshot that it was last loaded from; empty if from none.
    """

    source: str
    mark: Mark
    base: int
    table: str | None = None
    snapshot: str = ""

    def encode(self, *, stop: str) -> str:
        """Return the note as text; `stop` is for people."""
        value = {
            "source": self.source,
            "applied": str(self.mark),
            "base": self.base,
            "table": self.table,
            "snapshot": self.snapshot,
            "stop": stop,
        }
        return json.dumps(value, ensure_ascii=False)


def find_contents(
    log: CommitLog, version: int, *, source: str, transaction: int | None
) -> Contents | str:
    """Return what a version contains, or why that cannot be determined.

    Args:
        log: The table's commits.
        version: The present one.
        source: Name of the source.
        transaction: The last version of the source's transaction id; None if there is none. It is
            effective where older commits were cleaned up, unless a RESTORE came after them.
    """
    if transaction is None:
        return Contents(NOTHING)
    restored, at = False, version
    while at >= 0:
        commit = log.read(at)
        if commit is None and restored:
            return f"the table was restored, and commit {at} of its log was cleaned up"
        if commit is None:
            break
        note = _find_note(commit)
        if note is not None:
            is_own = note.source == source
            return _check(log, at, note) if is_own else rows_of_another(note.source)
        operation = str(commit.get("operation"))
        if operation.endswith(_REPLACING):
            return f"the table was replaced by commit {at} ({operation})"
        if operation != "RESTORE":
            at -= 1
            continue
        to = _restored_version(commit)
        if to is None or to >= at:
            return (
                f"commit {at} restored the table to a time, and does not say to which version: "
                "RESTORE it again, to the number of that version, or reload it"
            )
        restored, at = True, to
    return Contents(NOTHING) if restored else Contents(mark_of(transaction), snapshot=None)


def transaction_version(mark: Mark, stored: int | None) -> int:
    """Return a mark as a version of the transaction id, greater than the one that is stored.

    Versions grow with marks. After a RESTORE a smaller mark is committed again: it gets the next
    generation, since Delta would skip it otherwise.

    Raises:
        MergeError: The mark has more statements than fit in.
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
        return Note(
            value["source"],
            Mark.parse(value["applied"]),
            int(value["base"]),
            value["table"],
            value["snapshot"],
        )
    except MALFORMED:
        # Another writer's.
        return None


def _check(log: CommitLog, version: int, note: Note) -> Contents | str:
    """Believe a note unless the table was restored while the merge ran."""
    for between in range(note.base + 1, version):
        commit = log.read(between)
        if commit is not None and commit.get("operation") == "RESTORE":
            return f"the table was restored by commit {between}, while a merge ran"
    return Contents(note.mark, note.table, note.snapshot)


def _restored_version(commit: Mapping[str, Any]) -> int | None:
    """Return the version that was restored; None if the commit does not say.

    Of a time it does not say the zone, which is that of the session that restored the table.
    """
    version = commit.get("operationParameters", {}).get("version")
    return None if version is None else int(version)


@dataclass(frozen=True)
class Totals:
    """Totals of a table version.

    Attributes:
        files: How many data files it has.
        bytes: Their size.
        transactions: Java's sequence of the last version of each transaction id.
    """

    files: int
    bytes: int
    transactions: Any


class DeltaCommits:
    """Provenance of the commits of a table; a `CommitLog`."""

    def __init__(self, session: SparkSession, snapshot: Any) -> None:
        self._class = partial(java_class, session)
        self._snapshot = snapshot
        self._conf: Any = session._jsparkSession.sessionState().newHadoopConf()

    def read(self, version: int) -> dict[str, Any] | None:
        """Return what a commit says of itself; see `CommitLog`."""
        path = self._class("org.apache.hadoop.fs.Path")(
            self._snapshot.deltaLog().logPath(), f"{version:020d}.json"
        )
        try:
            stream = path.getFileSystem(self._conf).open(path)
        except Py4JJavaError as error:
            if error.java_exception.getClass().getSimpleName() == "FileNotFoundException":
                return None
            raise
        reader = self._class("java.io.BufferedReader")(
            self._class("java.io.InputStreamReader")(stream, "UTF-8")
        )
        try:
            # Delta writes it first, others do not: the rest may be long.
            action = json.loads(reader.readLine() or "{}")
            if "commitInfo" not in action:
                rest = self._class("org.apache.commons.io.IOUtils").toString(reader).splitlines()
                actions = (json.loads(line) for line in rest if '"commitInfo"' in line)
                action = next((own for own in actions if "commitInfo" in own), {})
        finally:
            reader.close()
        return dict(action.get("commitInfo", {}))


def check_commits(protocol: Mapping[str, Any], target: str) -> None:
    """Refuse a table whose newest commits are not in its log, but known to a catalog.

    Source: the Delta transaction log protocol, "Catalog-managed tables".

    Raises:
        MergeError: It is one.
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
