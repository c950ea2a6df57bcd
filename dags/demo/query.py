"""One query over the tables that the last demo left."""

from __future__ import annotations

import re
from contextlib import ExitStack
from typing import TYPE_CHECKING

from dags.demo import surroundings
from dags.demo.surroundings import FOLDER, Surroundings
from tests.services.progress import ServiceError
from tests.support.worker import Worker

if TYPE_CHECKING:
    import pyarrow as pa

    from dags.demo.choice import Choice

_ROWS_SHOWN = 40
_WIDTH_MAX = 40


def show_query(query: str) -> None:
    """Run a query in Spark, where each lake table has its own name, and print its rows.

    Raises:
        ServiceError: There was no demo, or Spark refuses the query.
    """
    choice = surroundings.maybe_last()
    if choice is None or not (tables := _tables(choice)):
        raise ServiceError("there are no tables yet: make demo")
    with ExitStack() as stack:
        store = surroundings.open_store(choice)
        if store is not None:
            stack.callback(store.stop)
        database = surroundings.open_database(choice)
        if database is not None:
            stack.callback(database.stop)
        around = Surroundings(choice, "", store, database)
        lake = Worker(
            "dags.demo.lake_worker",
            folder=FOLDER / "logs",
            name="query",
            env=around.spark_environment(),
        )
        stack.callback(lake.stop)
        for name in tables:
            lake.call("name", name, around.relation(name))
        print(_lines(lake.call("read", f"({query.strip().rstrip(';')})")))


def _tables(choice: Choice) -> list[str]:
    around = Surroundings(choice, "")
    lake = around.files / "lake" / choice.database
    folder = around.staging / choice.database if choice.target == "postgresql" else lake
    return sorted(path.name for path in folder.glob("*") if path.is_dir())


def _lines(found: pa.Table) -> str:
    rows = [found.column_names]
    rows += [[_cell(value) for value in row.values()] for row in found[:_ROWS_SHOWN].to_pylist()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    if found.num_rows > _ROWS_SHOWN:
        lines.append(f"... {found.num_rows:,} rows")
    return "\n".join(lines)


def _cell(value: object) -> str:
    text = "NULL" if value is None else re.sub(r"\s", " ", str(value))
    return text if len(text) <= _WIDTH_MAX else f"{text[: _WIDTH_MAX - 1]}…"
