"""A source as a DAG's author describes it, once for all tasks: its name, log, start and choices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from airflow_provider_binlog.errors import ConfigurationError

if TYPE_CHECKING:
    from airflow_provider_binlog.sources.state import Start

DEFAULT_CONN_ID = "binlog_default"


@dataclass(frozen=True)
class BinlogSource:
    """A binary log, and how its values are read.

    Give the same one to every task of a source. All fields are plain values, and all texts in them
    are templated. They are checked when a task runs, not when the DAG is parsed.

    :param name: Names the source's folder in the staging area, and its checkpoint, the Variable
        ``binlog_checkpoint_<name>``.
    :param start: Where the first run begins: ``"now"``, ``"earliest"`` (the oldest log that the
        server still has), a position ``"binlog.000042:4"`` or a GTID set: all transactions that
        have been applied already. Ignored once there is a checkpoint. It has no default, because
        every default would skip or repeat data for somebody. ``None`` if the checkpoint has been
        set by hand.
    :param conn_id: Id of a connection of type ``binlog``.
    :param files: Read files instead of a server: a folder, a glob of file names or a list of files,
        anywhere that Airflow's ObjectStoragePath reaches, as the server wrote them or compressed
        (``.gz``, ``.zst``). The log then ends with the last whole transaction in them, and
        ``conn_id`` is ignored.
    :param failover: What to do if the checkpoint belongs to another server than the connection
        leads to: ``"refuse"``, or ``"follow"`` it to the position in this server's log where its
        GTIDs end.
    :param zero_dates: How zero dates such as ``0000-00-00`` and invalid dates are staged:
        ``"null"`` stages NULL and counts them in the manifest, ``"fail"`` refuses them, ``"text"``
        stages every DATE, DATETIME and TIMESTAMP as the text that ``SELECT`` prints.
    :param invalid_text: How byte sequences are staged that are invalid in their column's character
        set: ``"fail"`` refuses them, ``"replace"`` stages U+FFFD and counts the values,
        ``"binary"`` stages every column of text as bytes.
    """

    name: str
    _: KW_ONLY
    start: Start | None
    conn_id: str = DEFAULT_CONN_ID
    files: str | Sequence[str] | None = None
    failover: Failover = "refuse"
    zero_dates: ZeroDatesChoice = "null"
    invalid_text: InvalidTextChoice = "fail"

    def serialize(self) -> dict[str, Any]:
        """Return the fields as plain values: how Airflow stores and shows a templated argument."""
        return asdict(self)

    def render(self, render: Callable[[Any], Any]) -> BinlogSource:
        """Return the source with every field rendered."""
        return replace(self, **{name: render(value) for name, value in self.serialize().items()})

    def check(self) -> None:
        """Raise ConfigurationError if a field cannot be used as given."""
        if not self.name:
            raise ConfigurationError("a source has a name", given=self.name)
        check_choice(Failover, self.failover, "failover")
        check_choice(ZeroDatesChoice, self.zero_dates, "zero_dates")
        check_choice(InvalidTextChoice, self.invalid_text, "invalid_text")


def read_source(value: object) -> BinlogSource:
    """Return the source that a task was given, checked: itself, or its fields by name.

    A mapped task may be given fields, since they pass through XCom.

    Raises:
        ConfigurationError: It is no source, or a field cannot be used as given.
    """
    known = {field.name for field in fields(BinlogSource) if field.init}
    if isinstance(value, BinlogSource):
        source = value
    elif isinstance(value, Mapping) and {"name"} <= value.keys() <= known:
        source = BinlogSource(**{"start": None, **value})
    else:
        raise ConfigurationError(
            f"source is a BinlogSource, or a mapping of its fields: {', '.join(sorted(known))}",
            given=value,
        )
    source.check()
    return source


Failover = Literal["refuse", "follow"]
"""Handling of a checkpoint that belongs to another server."""

BeforeImagesChoice = Literal["key_changes", "all"]
ZeroDatesChoice = Literal["null", "fail", "text"]
InvalidTextChoice = Literal["fail", "replace", "binary"]
InitialLoad = Literal["snapshot", "changes_only", "fail"]
"""Handling of a table that has rows from before what is staged of it."""
OnTableErrorChoice = Literal["quarantine", "fail"]
OnStale = Literal["warn", "fail"]
"""Handling of lake tables that wait for a reload."""
SnapshotLock = Literal["none", "brief"]
WhenNothingNew = Literal["wait", "skip", "proceed"]
Engine = Literal["worker", "spark"]
"""Reader of a task: its own process, or the executors of Spark."""
LakeFormat = Literal["delta", "iceberg", "postgresql"]


def check_choice(choices: Any, value: object, name: str) -> None:
    """Refuse a value that a `Literal` does not list.

    Raises:
        ConfigurationError: Lists the choices.
    """
    known = get_args(choices)
    if value not in known:
        raise ConfigurationError(f"{name} is one of {', '.join(known)}", given=value)
