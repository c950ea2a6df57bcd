"""FileLog: the state of a source in files, and whether they are of the checkpoint's server."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_binlog.binlog.gtid_set import GtidSet
from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.checkpoint import Checkpoint
from airflow_provider_binlog.errors import (
    CheckpointMissingError,
    ConfigurationError,
    ForeignPositionError,
    PositionPurgedError,
)
from airflow_provider_binlog.position import Flavor, Position, SourceIdentity
from airflow_provider_binlog.sources.binlog_files import find_files, reach_plainly
from airflow_provider_binlog.sources.file_log import FileLog
from tests.support import builder
from tests.support.builder import SERVER_UUID, BinlogFile

HERE = SourceIdentity(Flavor.MYSQL, "server_id=1", "binlog")
SERVER = SourceIdentity(Flavor.MYSQL, SERVER_UUID, "binlog")
NAMES = ["binlog.000001", "binlog.000002", "binlog.000003"]


def mysql_log(count: int = 3, *, first_gtid: int = 1) -> list[BinlogFile]:
    """Files of two transactions each; all but the last are closed."""
    files = []
    number = first_gtid
    for index in range(count):
        file = BinlogFile()
        executed = GtidSet.parse(f"{SERVER_UUID}:{first_gtid}-{number - 1}" if index else "")
        file.add(EventType.PREVIOUS_GTIDS, builder.previous_gtids(executed))
        for _ in range(2):
            file.add_transaction(number, [])
            number += 1
        if index < count - 1:
            file.add(EventType.ROTATE, builder.rotate(NAMES[index + 1]))
        files.append(file)
    return files


def mariadb_log() -> list[BinlogFile]:
    files = []
    for index in range(3):
        file = BinlogFile(builder.MARIADB)
        last = [(0, 1, 2 * index)] if index else []
        file.add(EventType.MARIADB_GTID_LIST, builder.mariadb_gtid_list(last))
        for number in (1, 2):
            file.add_mariadb_transaction(2 * index + number, [])
        files.append(file)
    return files


def a_log(folder: Path, files: list[BinlogFile], names: list[str] | None = None) -> FileLog:
    for name, file in zip(names or NAMES, files, strict=False):
        (folder / name).write_bytes(bytes(file))
    return FileLog(find_files(str(folder), reach_plainly))


def saved(position: Position, identity: SourceIdentity = HERE) -> Checkpoint:
    return Checkpoint(identity, position, 1, "2026-11-21", "a test")


def executed(upto: int) -> str:
    return f"{SERVER_UUID}:1-{upto}"


def test_the_first_run_begins_at_its_start(tmp_path: Path) -> None:
    files = mysql_log()
    log = a_log(tmp_path, files)
    end = Position(NAMES[2], len(files[2].data))

    for start, position in (
        ("earliest", Position(NAMES[0], 4)),
        ("now", end),
        ("binlog.000002:4", Position(NAMES[1], 4)),
        ({"file": NAMES[1], "offset": 4}, Position(NAMES[1], 4)),
    ):
        state = log.read_state(None, start=start)
        assert (state.start, state.log_end, state.identity) == (position, end, HERE)


@pytest.mark.parametrize("start", ["yesterday", executed(3), "0-1-7"])
def test_another_start_is_refused(start: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="earliest"):
        a_log(tmp_path, mysql_log()).read_state(None, start=start)


def test_no_start_and_no_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointMissingError, match="choose where"):
        a_log(tmp_path, mysql_log()).read_state(None, start=None)


@pytest.mark.parametrize("identity", [HERE, SERVER])
def test_a_checkpoint_of_the_same_history_holds(identity: SourceIdentity, tmp_path: Path) -> None:
    files = mysql_log()
    log = a_log(tmp_path, files)
    boundary = files[1].offsets[5]  # after the file's first transaction, the third of the log

    for position in (
        Position(NAMES[1], 4, executed(2)),
        Position(NAMES[1], boundary, executed(3)),
        # A server that was made from a backup executed more than its files say.
        Position(NAMES[1], boundary, f"{executed(3)},11111111-1111-1111-1111-111111111111:1-9"),
    ):
        state = log.read_state(saved(position, identity), start=None)
        assert (state.start, state.identity) == (position, identity)
        assert state.has_work


@pytest.mark.parametrize(
    ("position", "identity", "says"),
    [
        (Position(NAMES[1], 4, executed(1)), HERE, "other transactions precede"),
        (Position(NAMES[1], 4, executed(1)), SERVER, "other transactions precede"),
        (Position(NAMES[1], 4), SERVER, "nothing shows"),
        (
            Position(NAMES[1], 4, executed(2)),
            SourceIdentity(Flavor.MYSQL, "server_id=2", "binlog"),
            "nothing shows",
        ),
        (
            Position(NAMES[1], 4, executed(2)),
            SourceIdentity(Flavor.MARIADB, "some-uid", "binlog"),
            "nothing shows",
        ),
        (Position("other.000001", 4), HERE, "another log"),
        (Position(NAMES[2], 1 << 20, executed(6)), HERE, "end before"),
        (Position("binlog.000007", 4, executed(6)), HERE, "end before"),
    ],
)
def test_a_checkpoint_of_another_log_is_refused(
    position: Position, identity: SourceIdentity, says: str, tmp_path: Path
) -> None:
    with pytest.raises(ForeignPositionError, match=says):
        a_log(tmp_path, mysql_log()).read_state(saved(position, identity), start=None)


def test_a_mariadb_domain_at_another_sequence_number_is_refused(tmp_path: Path) -> None:
    log = a_log(tmp_path, mariadb_log())
    here = SourceIdentity(Flavor.MARIADB, "server_id=1", "binlog")

    state = log.read_state(saved(Position(NAMES[1], 4, "0-1-2"), here), start=None)

    assert state.has_work
    for other in ("0-1-3", "0-1-1", "7-1-2"):
        with pytest.raises(ForeignPositionError, match="other transactions precede"):
            log.read_state(saved(Position(NAMES[1], 4, other), here), start=None)


def test_files_that_start_after_the_checkpoint_are_refused(tmp_path: Path) -> None:
    log = a_log(tmp_path, mysql_log()[1:], NAMES[1:])

    with pytest.raises(PositionPurgedError, match=NAMES[1]):
        log.read_state(saved(Position(NAMES[0], 4, "")), start=None)


def test_there_is_nothing_new_until_the_next_file_is_there(tmp_path: Path) -> None:
    files = mysql_log()
    log = a_log(tmp_path, files[:2])
    store = saved(Position(NAMES[2], 4, executed(4)))

    assert not log.read_state(store, start=None).has_work
    assert a_log(tmp_path, files).read_state(store, start=None).has_work


def test_old_files_may_be_missing_and_files_after_the_checkpoint_may_not(tmp_path: Path) -> None:
    files = mysql_log()
    log = a_log(tmp_path, [files[0], files[2]], [NAMES[0], NAMES[2]])

    state = log.read_state(saved(Position(NAMES[2], 4, executed(4))), start=None)

    assert state.has_work
    with pytest.raises(ConfigurationError, match="not consecutive"):
        log.read_state(None, start="earliest")


def test_the_description_lists_skipped_files(tmp_path: Path) -> None:
    (tmp_path / "binlog.index").touch()
    for name in NAMES[:2]:
        (tmp_path / name).touch()

    text = FileLog(find_files(str(tmp_path), reach_plainly)).describe()

    assert text == "2 binlog files, binlog.000001 to binlog.000002; skipped: binlog.index"
