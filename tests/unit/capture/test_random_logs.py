"""Logs of savepoints, rollbacks, XA transactions and values that cannot be staged, cut anywhere."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.binlog.events.table_map import TableMap
from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.changes import OnTableError
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.position import Flavor
from tests.support import builder
from tests.support.logs import Made, maps, query
from tests.unit.capture.prepared_logs import Writer, a_log, rows_of
from tests.unit.capture.staging import capture, end_of, file_source, new_store
from tests.unit.rows import wire

if TYPE_CHECKING:
    from airflow_provider_binlog.manifest import Manifest
    from tests.unit.capture.staging import Files

NAMES = ("one", "two", "three")
TABLES = {
    name: TableMap(
        10 + number,
        0,
        "shop",
        name,
        (
            wire.column(ColumnType.LONG, name="id", nullable=False, collation=None),
            wire.varchar(40, name="note"),
        ),
        ((0, 0),),
    )
    for number, name in enumerate(NAMES)
}


def insert(flavor: Flavor, name: str, number: int, *, bad: bool) -> list[Made]:
    table = TABLES[name]
    note = b"\xff" if bad else b"a note"
    version = 2 if flavor is Flavor.MYSQL else 1
    type_ = EventType.WRITE_ROWS if version == 2 else EventType.WRITE_ROWS_V1
    image = wire.image(table, [number, note])
    rows = builder.rows(type_, table.table_id, len(table.columns), image, flags=1)
    return [maps(table, flavor), Made(type_, rows)]


@dataclass
class Transaction:
    """A transaction as the plain reference runs it.

    Attributes:
        events: What is logged of it.
        rows: Its rows: their step, table, number, and whether bad.
        uncertain: Steps before which it is not certain what was rolled back.
    """

    events: list[Made] = field(default_factory=list)
    rows: list[tuple[int, str, int, bool]] = field(default_factory=list)
    uncertain: list[int] = field(default_factory=list)

    def run(self, flavor: Flavor, steps: list[tuple[str, str]], numbers: Any) -> None:
        for at, (step, name) in enumerate(steps):
            if step == "save":
                self.events.append(query(f"SAVEPOINT `{name}`"))
            elif step == "back":
                self.events.append(query(f"ROLLBACK TO `{name}`"))
                self.uncertain.append(at)
            else:
                number = next(numbers)
                self.events += insert(flavor, name, number, bad=step == "bad")
                self.rows.append((at, name, number, step == "bad"))


class Reference:
    """What is to be staged."""

    def __init__(self) -> None:
        self.rows: dict[str, list[int]] = {}
        self.quarantined: set[str] = set()

    def commit(self, transaction: Transaction) -> None:
        for at, table, number, bad in transaction.rows:
            self.rows.setdefault(table, []).append(number)
            if bad or any(at < step for step in transaction.uncertain):
                self.quarantined.add(table)

    @property
    def staged(self) -> dict[str, list[int]]:
        return {
            table: numbers
            for table, numbers in self.rows.items()
            if table not in self.quarantined and numbers
        }


STEPS = st.lists(
    st.tuples(st.sampled_from(["insert"] * 6 + ["bad"]), st.sampled_from(NAMES))
    | st.tuples(st.sampled_from(["save", "back"]), st.sampled_from("st")),
    max_size=8,
)
OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(
            ["commit", "commit", "commit", "roll back", "prepare", "XA COMMIT", "file"]
        ),
        st.sampled_from("xy"),
        STEPS,
    ),
    max_size=10,
)


def play(operations: Any, flavor: Flavor) -> tuple[Files, Reference]:
    """Return a log, and what is to be staged of it."""
    writer, reference = Writer(flavor), Reference()
    gtids, numbers = itertools.count(1), itertools.count(1)
    prepared: dict[str, Transaction] = {}
    groups: list[list[Made]] = [[]]
    for kind, xid, steps in operations:
        transaction = Transaction()
        if kind == "file":
            groups.append([])
            continue
        if kind == "XA COMMIT":
            if xid in prepared:
                groups[-1] += writer.decide(next(gtids), "COMMIT", xid)
                reference.commit(prepared.pop(xid))
            continue
        if kind == "prepare" and xid in prepared:
            continue
        transaction.run(flavor, steps, numbers)
        if kind == "prepare":
            groups[-1] += writer.prepare(next(gtids), xid, *transaction.events)
            prepared[xid] = transaction
            continue
        logged = writer.plain(next(gtids), *transaction.events)
        if kind != "commit":
            logged[-1] = query("ROLLBACK")
            transaction.uncertain.append(1 << 30)
        groups[-1] += logged
        reference.commit(transaction)
    return a_log(flavor, *groups), reference


def run(files: Files, flavor: Flavor, block_bytes: int, buffered: int) -> tuple[Manifest, Any]:
    store = new_store()
    manifest = capture(
        file_source(files, block_bytes=block_bytes),
        end_of(files),
        flavor=flavor,
        store=store,
        limits=Limits(prepared_bytes_max=buffered, part_bytes_max=100),
        on_table_error=OnTableError.QUARANTINE,
    )
    rows = {
        table.table: rows_of(store, replace(manifest, tables=(table,)))
        for table in manifest.tables
        if table.rows
    }
    return replace(manifest, created_at=""), rows


@settings(max_examples=60, deadline=None, phases=[Phase.reuse, Phase.generate])
@given(
    OPERATIONS,
    st.sampled_from(list(Flavor)),
    st.sampled_from([64, 100, 250, 1000]),
    st.sampled_from([1, 500, 1 << 24]),
)
def test_any_log_is_staged_as_the_plain_reference_says(
    operations: Any, flavor: Flavor, block_bytes: int, buffered: int
) -> None:
    files, reference = play(operations, flavor)

    whole, rows = run(files, flavor, 1 << 22, buffered)
    cut, cut_rows = run(files, flavor, block_bytes, buffered)

    staged = {name: [row["id"] for row in table_rows] for name, table_rows in rows.items()}
    assert staged == reference.staged
    assert {table.table for table in whole.quarantined} == reference.quarantined
    parts = [[table.parts for table in manifest.tables] for manifest in (whole, cut)]
    assert parts[0] == parts[1]
    assert (cut.statements, cut_rows) == (whole.statements, rows)
