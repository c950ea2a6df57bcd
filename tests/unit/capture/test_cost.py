"""What capture costs: counted in calls of the interpreter, which no other load changes."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.position import Flavor
from tests.support import builder
from tests.support.logs import Made, a_table, insert, maps, query, write_files
from tests.unit.capture.staging import Files, capture, end_of, file_source

if TYPE_CHECKING:
    from types import FrameType

_TABLES = [a_table(f"t{number:03}", "id", "x", table_id=100 + number) for number in range(300)]
_FEW = 12


def _log(transactions: int, rows: int, tables: int = _FEW) -> Files:
    """Return small transactions on the tables in turns."""
    events: list[Made] = []
    for number in range(1, transactions + 1):
        table = _TABLES[number % tables]
        gtid = builder.gtid(number, commit_timestamp_us=1_700_000_000_000_000 + number)
        events += [
            Made(EventType.GTID, gtid),
            query("BEGIN"),
            maps(table, Flavor.MYSQL),
            insert(table, range(rows * number, rows * number + rows)),
            Made(EventType.XID, builder.xid(number)),
        ]
    return write_files([events], Flavor.MYSQL)


def _calls(files: Files, tables: int = _FEW) -> int:
    """Return how many calls, of Python and of C, it takes to capture a log."""
    counted: Counter[str] = Counter()

    def count(frame: FrameType, event: str, argument: Any) -> None:
        counted[event] += 1

    source, stop = file_source(files), end_of(files)
    sys.setprofile(count)
    try:
        manifest = capture(source, stop)
    finally:
        sys.setprofile(None)
    assert len(manifest.tables) == tables
    return counted["call"] + counted["c_call"]


def test_no_step_is_taken_per_transaction_nor_per_row() -> None:
    _calls(_log(300, 1))  # what is imported and cached at the first time

    few, many = _calls(_log(600, 3)), _calls(_log(6_000, 3))
    wide = _calls(_log(600, 30))

    assert many < 1.1 * few
    assert wide < 1.6 * few


def test_a_table_costs_little_beside_others_of_equal_columns() -> None:
    _calls(_log(300, 1))

    few, many = _calls(_log(600, 3)), _calls(_log(600, 3, tables=300), tables=300)

    assert many - few < 360 * (300 - _FEW)


def test_capture_does_not_load_pandas() -> None:
    here = "from tests.unit.capture.test_cost import _calls, _log"
    check = "import sys; sys.exit('pandas' in sys.modules)"

    subprocess.run([sys.executable, "-c", f"{here}; _calls(_log(20, 1)); {check}"], check=True)
