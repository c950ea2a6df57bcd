"""The servers' own reader of binlogs agrees: on where events begin, on rows and on values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.changes import CHANGE_TYPE, FILE, POSITION, ChangeType
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.transport.files.reader import FileBlockStream
from tests.corpus.capture import capture
from tests.corpus.case import Recorded, recorded
from tests.services.servers import Package
from tests.support.mysqlbinlog import agrees, read_printed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.corpus.capture import Change
    from tests.support.mysqlbinlog import Image

pytestmark = pytest.mark.server

# Prepared rows are printed where they were prepared, and staged where they were committed; what is
# rolled back is printed, and not staged.
NOT_STAGED = ("xa", "rolled_back")
# In these some values are printed in another form than they are staged: changes of documents,
# zero dates and invalid dates.
NOT_COMPARED = ("json_partial", "zero_dates")
# The programs stop at what they do not know how to print: MySQL's at a geometry, MariaDB's at rows
# with times in the old format.
STOPS = {Flavor.MYSQL: "geometry", Flavor.MARIADB: "old_temporals"}
PRINTED = [log for log in recorded() if log.case.name != STOPS[log.flavor]]


@pytest.mark.parametrize("log", PRINTED, ids=str)
def test_mysqlbinlog_prints_the_same(log: Recorded, tmp_path: Path) -> None:
    program = [*Package.obtain(log.server).program("mysqlbinlog"), "--no-defaults"]
    printed = {file.name: read_printed(program, file, log.flavor) for file in log.files}
    # Compressed events are printed as what they hold.
    compressed = log.case.name.startswith("compressed")
    if not compressed:
        assert {file: each.positions for file, each in printed.items()} == positions(log)
    if log.case.refused is not None or log.case.name in NOT_STAGED:
        return
    images = [(file, image) for file, each in printed.items() for image in each.images]
    changes = capture(log, tmp_path)
    assert len(images) == len(changes)
    for index, ((file, image), change) in enumerate(zip(images, changes, strict=True)):
        assert (file, image.change) == (change.row[FILE], change.row[CHANGE_TYPE])
        assert image.table == quoted(change)
        # Rows are printed at the end of their statement.
        assert compressed or image.position >= change.row[POSITION]
        check_values(log, image, change, before=changes[index - 1])


def positions(log: Recorded) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {file.name: [] for file in log.files}
    source = FileBlockStream(log.files)
    for block in source.blocks(source.first_position):
        found[block.file] += block.offset.tolist()
    return found


def check_values(log: Recorded, image: Image, change: Change, *, before: Change) -> None:
    """Fail unless a staged row has what is printed of it, and nothing else."""
    columns = change.schema.fields
    shown = {columns[number - 1].name for number in image.values}
    assert shown <= change.values.keys()
    for number, text in image.values.items():
        column = columns[number - 1]
        value = change.values[column.name]
        answer = agrees(text, image.types[number], value, column)
        assert answer is not False, f"{column.name}: {text} is staged as {value!r}"
        assert answer is True or log.case.name in NOT_COMPARED, f"{column.name}: {text}"
    more = change.values.keys() - shown
    if more:
        # What an after-image lacks is staged with it where its before-image has it.
        assert image.change is ChangeType.UPDATE_POSTIMAGE
        assert before.row[CHANGE_TYPE] == ChangeType.UPDATE_PREIMAGE
        assert {name: change.values[name] for name in more} == {
            name: before.values[name] for name in more
        }


def quoted(change: Change) -> str:
    database, table = change.table.split(".")
    return f"`{database}`.`{table}`"
