"""A server's log that is one made file, and an information_schema that the test defines."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.position import FIRST_OFFSET, Flavor, Position
from airflow_provider_binlog.sources.server_log import ServerLog
from airflow_provider_binlog.sources.settings import ConnectionSettings
from airflow_provider_binlog.sql.columns import PartialSchema
from airflow_provider_binlog.transport.server.information_schema import ServerTables
from tests.support import builder
from tests.support.builder import BinlogFile
from tests.support.logs import TABLES, insert, split_blocks
from tests.support.server_tables import server_column, server_table
from tests.support.table_map_builder import table_map

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.errors import BinlogError
    from airflow_provider_binlog.schema import TableName

NAME = "binlog.000001"
FIRST = Position(NAME, FIRST_OFFSET)
A = TABLES[0]
SPARSE = replace(
    A,
    columns=tuple(replace(each, name=None, unsigned=None) for each in A.columns),
    primary_key=None,
)


def a_log(*steps: str) -> BinlogFile:
    """Return a log of statements, and of rows: "+" with all metadata, "-" without."""
    file = BinlogFile()
    for number, step in enumerate(steps, start=1):
        if step in "-+":
            made = insert(A, [-1])
            described = table_map(SPARSE if step == "-" else A)
            file.add_transaction(number, [(EventType.TABLE_MAP, described), (made.type, made.body)])
        else:
            file.add(EventType.GTID, builder.gtid(number))
            file.add(EventType.QUERY, builder.query(step))
    return file


class Served(ServerLog):
    """A log whose blocks hold one event each.

    Attributes:
        tables: The columns of each table of `shop` in information_schema, all INT, the first its
            key.
        ends: Offsets where the log ends, asked for one after another; then it is the file's end.
        failure: What a query of information_schema fails with.
        asked: How often it was.
    """

    tables: Mapping[str, str]
    ends: list[int]
    failure: BinlogError | None
    asked: int

    def __init__(self, file: BinlogFile, **tables: str) -> None:
        super().__init__(ConnectionSettings("nowhere"))
        vars(self).update(file=file, tables=tables, ends=[], failure=None, asked=0)

    def fail(self, failure: BinlogError) -> None:
        vars(self).update(failure=failure)

    def flavor(self) -> Flavor:
        return Flavor.MYSQL

    def end(self) -> Position:
        file: BinlogFile = vars(self)["file"]
        return Position(NAME, self.ends.pop(0) if self.ends else len(file.data))

    def read_server_tables(
        self, names: Collection[TableName], excluded: object = None
    ) -> ServerTables:
        vars(self).update(asked=self.asked + 1)
        if self.failure is not None:
            raise self.failure
        found = {
            ("shop", name): _table(columns)
            for name, columns in self.tables.items()
            if ("shop", name) in names
        }
        return ServerTables(self.end(), found)

    def blocks(self, start: Position, stop: Position | None = None) -> Iterator[EventBlock]:
        file: BinlogFile = vars(self)["file"]
        for block in split_blocks(NAME, file, range(1, len(file.offsets))):
            offset = int(block.offset[0])
            if offset >= start.offset and (stop is None or offset < stop.offset):
                yield block


def _table(columns: str) -> PartialSchema:
    names = columns.split()
    return server_table(*(server_column(each, unsigned=each.startswith("u")) for each in names))
