"""What a server's log holds of some tables, decoded without the rest of a capture."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from airflow_provider_binlog.binlog.events.table_map import TableMap
from airflow_provider_binlog.binlog.header import ROWS, EventType
from airflow_provider_binlog.changes import BeforeImages, Policies
from airflow_provider_binlog.rows.decode import RowsEvents
from airflow_provider_binlog.rows.layout import RowLayout, compile_layout
from airflow_provider_binlog.transport.files.reader import FileBlockStream
from tests.reference.rows import decode_plainly
from tests.reference.rows_header import RowsHeader
from tests.support.decoded import decode

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.mysql import Database


@dataclass
class Logged:
    """The rows events of one table, with the TABLE_MAP that it had first."""

    table: TableMap
    events: list[tuple[int, bytes]] = field(default_factory=list)
    policies: Policies = field(default_factory=Policies)

    @property
    def layout(self) -> RowLayout:
        return compile_layout(self.table, policies=self.policies)

    def rows_events(self) -> RowsEvents:
        sizes = np.array([len(event) for _, event in self.events], dtype=np.int64)
        data = np.frombuffer(b"".join(event for _, event in self.events) + bytes(64), np.uint8)
        end = np.cumsum(sizes)
        types = np.array([kind for kind, _ in self.events], dtype=np.uint8)
        return RowsEvents(data, end - sizes, end, types)


def read_log(
    database: Database, complete: Callable[[TableMap], TableMap] = lambda table: table
) -> dict[str, Logged]:
    """Return what the log holds of a database's tables; `complete` adds what it does not say."""
    files = sorted(database.server.data.glob(f"binlog.{'[0-9]' * 6}"))
    source = FileBlockStream(files)
    tables: dict[str, Logged] = {}
    names: dict[int, str] = {}
    for block in source.blocks(source.first_position):
        for index in range(len(block)):
            kind = int(block.type[index])
            if kind == EventType.TABLE_MAP:
                table = TableMap.parse(block.body(index), block.format)
                names.pop(table.table_id, None)
                if table.database == database.name:
                    names[table.table_id] = table.table
                    tables.setdefault(table.table, Logged(complete(table)))
            elif kind in ROWS:
                header = RowsHeader.parse(kind, block.body(index), block.format)
                if header.table_id in names:
                    event = bytes(block.event(index))
                    event = event[: len(event) - block.format.checksum_size]
                    tables[names[header.table_id]].events.append((kind, event))
    return tables


def decoded(logged: Logged) -> list[tuple[int, tuple[Any, ...]]]:
    """Return (change, values) of all rows, the same from both decoders."""
    layout, events = logged.layout, logged.rows_events()
    rows = decode(layout, events, before_images=BeforeImages.ALL)
    plain = decode_plainly(layout, events)
    assert rows.columns == plain.columns
    assert rows.unrepresentable == plain.unrepresentable
    assert rows.invalid_text == plain.invalid_text
    values = zip(*(array.to_pylist() for array in rows.columns), strict=True)
    return list(zip(rows.change.tolist(), values, strict=True))
