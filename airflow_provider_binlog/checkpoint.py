"""The checkpoint: how far a source's log is staged.

It moves last: parts, then their manifest, then the checkpoint. So it may lag behind what is staged,
never lead, and it can always be rebuilt from the manifests. Without a checkpoint, the DAG's author
chooses where to start; there is no default.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import Protocol

from airflow_provider_binlog import errors
from airflow_provider_binlog.binlog.gtid_set import missing_gtids
from airflow_provider_binlog.manifest import Manifest
from airflow_provider_binlog.position import Position, SourceIdentity
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.stored_json import StoredFormat, stored_as

KEY_PREFIX = "binlog_checkpoint_"
"""Prefix of the keys of checkpoints: the source's name follows."""

FORMAT = StoredFormat(
    "airflow-provider-binlog/checkpoint",
    1,
    "a checkpoint",
    errors.CheckpointError,
    "restore it as it was saved, or set it with `airflow binlog checkpoint set`",
)


def checkpoint_key(source: str) -> str:
    """Return the key under which a source's checkpoint is stored."""
    return f"{KEY_PREFIX}{source}"


class CheckpointStore(Protocol):
    """Stores text under a key, as Airflow's Variables do."""

    def get(self, key: str) -> str | None:
        """Return the text stored under `key`; None if there is none."""

    def set(self, key: str, value: str) -> None:
        """Store `value` under `key`."""


@dataclass(frozen=True)
class Checkpoint:
    """A position up to which a source's log is staged, and the run that saved it.

    Attributes:
        identity: The server that issued the position.
        position: Everything before it is staged.
        sequence: The number of the newest manifest it covers; 0 if there is none yet.
        saved_at: ISO 8601 in UTC.
        saved_by: The run.
    """

    identity: SourceIdentity = field(metadata=stored_as("source"))
    position: Position
    sequence: int
    saved_at: str
    saved_by: str

    @classmethod
    def covering(cls, manifest: Manifest, *, saved_at: str, saved_by: str) -> Checkpoint:
        """Return the checkpoint that covers `manifest` and all before it."""
        return cls(manifest.identity, manifest.stop, manifest.sequence, saved_at, saved_by)

    def same_position(self, other: Checkpoint | None) -> bool:
        """Whether `other` has the same coordinates and sequence, whichever run saved it."""
        return (
            other is not None
            and self.identity == other.identity
            and self.position.coordinates == other.position.coordinates
            and self.sequence == other.sequence
        )

    def encode(self) -> str:
        """Return the checkpoint as it is stored: one JSON object."""
        return FORMAT.encode_values(self)

    @classmethod
    def decode(cls, text: str) -> Checkpoint:
        """Read what `encode` wrote; raise CheckpointError for anything else."""
        checkpoint = FORMAT.decode_values(cls, text)
        if checkpoint.sequence < 0:
            raise errors.CheckpointError("not a checkpoint", sequence=checkpoint.sequence)
        try:
            _ = checkpoint.position.coordinates
        except errors.FormatError as error:
            raise errors.CheckpointError(f"not a checkpoint: {errors.cause_of(error)}") from error
        return checkpoint

    def __str__(self) -> str:
        """Return the position and the manifest, for people."""
        return f"{self.position}, manifest {self.sequence}"


def covering_staged(saved: Checkpoint | None, log: ManifestLog) -> Checkpoint | None:
    """Return the checkpoint that covers the newest manifest; None if none is saved.

    It is past the saved one while a merge fails. Nothing is saved.
    """
    newest = None if saved is None else log.latest()
    if saved is None or newest is None or newest.sequence <= saved.sequence:
        return saved
    return Checkpoint.covering(newest, saved_at=saved.saved_at, saved_by=saved.saved_by)


def unless_only_a_start(saved: Checkpoint | None, start: object) -> Checkpoint | None:
    """Return the checkpoint; None if nothing is staged before it, and `start` can be read again.

    The author may have corrected `start` meanwhile. But `now` was fixed by the checkpoint: later it
    is another position.
    """
    is_fixed = saved is None or saved.sequence > 0 or start in (None, "now")
    return saved if is_fixed else None


def load(store: CheckpointStore, key: str) -> Checkpoint | None:
    """Return the saved checkpoint; None if there is none; see `Checkpoint.decode`."""
    text = store.get(key)
    if text is None:
        return None
    with errors.error_context(key=key, repair=repair_command(key.removeprefix(KEY_PREFIX))):
        return Checkpoint.decode(text)


def repair_command(source: str, staging_path: str | None = None) -> str:
    """Return the command that saves the checkpoint which covers all manifests of a source."""
    command = f"airflow binlog checkpoint set {shlex.quote(source)} --from-manifests"
    if staging_path is None:
        return f"{command} STAGING_PATH, where STAGING_PATH is the staging_path of its extract task"
    return f"{command} {shlex.quote(staging_path)}"


def advance(
    store: CheckpointStore, key: str, *, expected: Checkpoint | None, new: Checkpoint
) -> Checkpoint:
    """Move the checkpoint from `expected`, where this run started, to `new`; return the saved one.

    Nothing is written if another run, or an earlier try of this one, saved `new` or a later one.

    Raises:
        CheckpointMovedError: The saved one is not `expected`, and does not cover `new`: another run
            moved it.
        CheckpointError: `new` is before `expected`, or on another server; or the store does not
            return what was saved.
    """
    saved = load(store, key)
    if saved is not None and new.same_position(saved):
        return saved
    if not (saved is None if expected is None else expected.same_position(saved)):
        if saved is not None and _covers(saved, new):
            return saved
        raise errors.CheckpointMovedError(
            "another run moved the checkpoint meanwhile", key=key, expected=expected, found=saved
        )
    if saved is not None:
        _check_forward(saved, new)
    overwrite(store, key, new)
    return new


def overwrite(store: CheckpointStore, key: str, checkpoint: Checkpoint) -> None:
    """Save a checkpoint, whatever is saved now. A person decides this, never a task."""
    text = checkpoint.encode()
    store.set(key, text)
    stored = store.get(key)
    if stored != text:
        raise errors.CheckpointError(
            "the checkpoint was saved but reads differently: another run saved one meanwhile, "
            "or one that Airflow reads first hides it (an environment variable, a secrets backend)",
            key=key,
        )


def at_manifest(log: ManifestLog, sequence: int, *, saved_at: str, saved_by: str) -> Checkpoint:
    """Return the checkpoint that covers the manifests up to a number; 0 is before the first one.

    A cleanup may have removed the last of them: its stop is the start of the oldest manifest.

    Raises:
        ManifestError: There is no such manifest, or it is unreadable.
    """
    first = next(iter(log.sequences()), 1)
    if sequence == first - 1:
        oldest = log.load(first)
        return Checkpoint(oldest.identity, oldest.start, sequence, saved_at, saved_by)
    return Checkpoint.covering(log.load(sequence), saved_at=saved_at, saved_by=saved_by)


def rebuild(log: ManifestLog, *, saved_at: str, saved_by: str) -> Checkpoint:
    """Return the checkpoint that covers all manifests; the newest is read."""
    newest = log.latest()
    if newest is None:
        raise errors.CheckpointMissingError("there is no manifest to rebuild a checkpoint from")
    return Checkpoint.covering(newest, saved_at=saved_at, saved_by=saved_by)


def _is_failover(saved: Checkpoint, new: Checkpoint) -> bool:
    """Whether the log of another server continues the saved checkpoint, by sequence and GTIDs."""
    before, now = saved.position.gtid, new.position.gtid
    if saved.identity.flavor is not new.identity.flavor or new.sequence <= saved.sequence:
        return False
    if not before or not now:
        return False
    return not missing_gtids(new.identity.flavor, before, now)


def _covers(later: Checkpoint, earlier: Checkpoint) -> bool:
    """Whether everything before `earlier` is before `later`, too."""
    if later.identity != earlier.identity:
        return _is_failover(earlier, later)
    reached = later.position.coordinates >= earlier.position.coordinates
    return reached and later.sequence >= earlier.sequence


def _check_forward(saved: Checkpoint, new: Checkpoint) -> None:
    if _covers(new, saved):
        return
    if new.identity != saved.identity:
        raise errors.CheckpointError(
            "the checkpoint belongs to another server, and the new one does not cover it",
            saved=saved.identity.server,
            new=new.identity.server,
        )
    raise errors.CheckpointError(
        "a checkpoint moves backwards only on purpose, by `airflow binlog checkpoint set`",
        saved=saved,
        new=new,
    )
