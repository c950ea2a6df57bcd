"""What a command prints: a table, JSON, YAML or plain text, as Airflow's own commands have it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.read_progress import OnProgress, PacedProgress, ReadProgress

Record = Mapping[str, Any]

_WIDTH_MAX = 100_000

_encode = json.JSONEncoder(ensure_ascii=False).encode

_T = TypeVar("_T")


def print_records(records: Iterable[Record], form: str) -> None:
    """Print records that have the same keys, all of them at once."""
    listed = list(records)
    if form == "json":
        print(json.dumps(listed, ensure_ascii=False, default=str))
    elif form == "yaml":
        print(_to_yaml(listed), end="")
    elif form == "plain":
        _print_plain(listed)
    else:
        _print_table(listed)


def print_stream(records: Iterable[Record], form: str) -> None:
    """Print records, in JSON each on a line of its own as it comes."""
    if form != "json":
        print_records(records, form)
        return
    for record in records:
        print(_encode(record))


def print_record(record: Record, form: str) -> None:
    """Print one record: a row for each of its values, in JSON and YAML the record itself."""
    if form == "json":
        print(json.dumps(record, ensure_ascii=False, default=str))
    elif form == "yaml":
        print(_to_yaml(dict(record)), end="")
    else:
        rows = [{"name": name, "value": value} for name, value in record.items()]
        print_records(rows, form)


def track(items: Sequence[_T], title: str) -> Iterator[_T]:
    """Yield items, with a progress bar where standard error is a terminal."""
    if not sys.stderr.isatty():
        yield from items
        return
    with _bars() as bars:
        yield from bars.track(items, description=title)


@contextmanager
def show_progress(title: str) -> Iterator[OnProgress]:
    """Give what shows the progress of a range or a snapshot.

    That is a bar where standard error is a terminal, else a line now and then.
    """
    if not sys.stderr.isatty():
        yield PacedProgress(lambda line: sys.stderr.write(f"{title}: {line}\n"))
        return
    with _bars() as bars:
        task = bars.add_task(title, total=None)

        def show(progress: ReadProgress) -> None:
            bars.update(
                task,
                completed=progress.done,
                total=progress.total,
                description=f"{title}: {progress.rows:,} rows",
            )

        yield show


def _bars() -> Any:
    from rich import progress
    from rich.console import Console

    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
        progress.TextColumn("left"),
        console=Console(stderr=True),
        transient=True,
    )


def _to_yaml(value: Any) -> str:
    try:
        import yaml
    except ImportError as error:
        raise ConfigurationError("YAML takes the package PyYAML, which Airflow brings") from error
    plain = json.loads(json.dumps(value, default=str))
    return str(yaml.safe_dump(plain, allow_unicode=True, sort_keys=False))


def _print_plain(records: Sequence[Record]) -> None:
    """Print columns with spaces in between, for programs that cut lines."""
    if not records:
        return
    rows = [list(records[0])] + [[_show(value) for value in row.values()] for row in records]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())


def _print_table(records: Sequence[Record]) -> None:
    try:
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table
    except ImportError:
        # Without Airflow, which brings it.
        _print_plain(records)
        return
    if not records:
        return
    table = Table(show_edge=False)
    for name in records[0]:
        table.add_column(name, overflow="fold")
    for record in records:
        table.add_row(*(escape(_show(value)) for value in record.values()))
    # Where there is no terminal, no line is broken.
    Console(width=None if sys.stdout.isatty() else _WIDTH_MAX).print(table)


def _show(value: Any) -> str:
    """Return a value for people."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_show(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_show, value))
    return str(value)
