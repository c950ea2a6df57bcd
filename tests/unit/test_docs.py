"""What the pages say is what the code does, wherever a program can compare the two."""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import inspect
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import airflow_provider_binlog
from airflow_provider_binlog import binlog_to_lake, binlog_to_lake_dag, errors
from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.binlog.transactions import REFUSED
from airflow_provider_binlog.cli.commands import COMMANDS, Command, Group, _add
from airflow_provider_binlog.errors import BinlogError, UnsupportedError
from airflow_provider_binlog.rows.layout import compile_layout
from airflow_provider_binlog.spark.staged.types import spark_type
from tests.unit.rows import wire

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_provider_binlog.binlog.events.table_map import TableMapColumn

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
OURS = "airflow_provider_binlog"
PAGES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "tests/README.md"]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def cells(page: str, heading: str) -> Iterator[list[str]]:
    """Yield the rows of the table whose heading line begins so."""
    lines = iter(page.splitlines())
    for line in lines:
        if line.startswith(heading):
            break
    next(lines)
    for line in lines:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split("|")]


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


# ------------------------------------------------------------------- README


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", read(page), re.DOTALL | re.MULTILINE)


def test_the_dag_of_the_readme_is_the_example() -> None:
    (snippet,) = blocks("README.md", "python")

    assert read("airflow_provider_binlog/example_dags/binlog_to_lake.py").endswith(snippet)


@pytest.mark.parametrize(
    "example", sorted(path.name for path in ROOT.glob("airflow_provider_binlog/example_dags/b*.py"))
)
def test_every_example_is_on_a_page(example: str) -> None:
    source = read(f"airflow_provider_binlog/example_dags/{example}")
    code = source.split("from __future__ import annotations\n\n")[1]

    pages = ["first-dag", "freshness", "options", "reload"]
    assert code in [code for page in pages for code in blocks(f"docs/{page}.md", "python")]


def test_the_readme_of_the_package_has_no_link_into_the_checkout() -> None:
    specification = importlib.util.spec_from_file_location("readme", DOCS / "package_readme.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    metadata: dict[str, dict[str, str]] = {}
    module.ReadmeHook(str(ROOT), {}).update(metadata)

    assert "(docs/" in read("README.md")
    assert re.findall(r"\]\((?!https:)", metadata["readme"]["text"]) == []
    assert "source distribution (`pip download" in metadata["readme"]["text"]


FRAGMENTS = [f"docs/changes/{path.name}" for path in sorted(DOCS.glob("changes/+*.md"))]
"""They become parts of CHANGELOG.md."""


def anchors(page: str) -> set[str]:
    titles = re.findall(r"^#+ (.*)", read(page), re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", title).lower().replace(" ", "-") for title in titles}
    return slugs | set(re.findall(r"^\((.*)\)=$", read(page), re.MULTILINE))


@pytest.mark.parametrize("page", [*PAGES, *FRAGMENTS])
def test_every_link_has_a_target(page: str) -> None:
    """Of links between the pages of the docs, `make docs` refuses those that have none."""
    folder = ROOT if page in FRAGMENTS else (ROOT / page).parent

    for path, _, anchor in re.findall(r"\]\(([^)#:]*)(#([^)]*))?\)", read(page)):
        target = (folder / path if path else ROOT / page).resolve()
        assert target.exists(), path
        assert not anchor or anchor in anchors(str(target.relative_to(ROOT))), anchor


@pytest.mark.parametrize("page", [*PAGES, *FRAGMENTS])
def test_every_link_has_a_text(page: str) -> None:
    """Sphinx would fill an empty one in; where the files are read as they are, nobody sees it."""
    assert "[](" not in read(page)


def test_the_index_leads_to_every_page() -> None:
    table, _, trees = read("docs/index.md").partition("```{toctree}")
    listed = set(re.findall(r"\]\((.+?)\.md", table))
    for_contributors = trees.partition(":caption: Contribute")[2].split()

    pages = {path.stem for path in DOCS.glob("*.md")}
    assert listed | set(for_contributors) - {"```"} | {"index"} == pages


@pytest.mark.parametrize("page", PAGES)
def test_every_target_of_make_exists(page: str) -> None:
    known = set(re.findall(r"^([\w-]+):", read("Makefile"), re.MULTILINE))

    assert set(re.findall(r"(?:^|`)make ([a-z-]+)", read(page), re.MULTILINE)) <= known


# ------------------------------------------------------------------- code

PAGES_WITH_CODE = ["README.md", *(f"docs/{path.name}" for path in sorted(DOCS.glob("*.md")))]


def parameters(name: str) -> set[str]:
    """Return what may be given to one of our names by keyword."""
    kind = getattr(airflow_provider_binlog, name)
    bases: list[Any] = [kind, *(kind.__mro__ if isinstance(kind, type) else ())]
    if kind is binlog_to_lake_dag:
        bases.append(binlog_to_lake)
    return {given for base in bases for given in inspect.signature(base).parameters}


@pytest.mark.parametrize("page", PAGES_WITH_CODE)
def test_every_block_of_python_names_what_exists(page: str) -> None:
    for block in blocks(page, "python"):
        known = set(airflow_provider_binlog.__all__)
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module is not None and OURS in node.module:
                module = importlib.import_module(node.module)
                assert all(hasattr(module, each.name) for each in node.names)
                known |= {each.name for each in node.names}
            if isinstance(node, ast.Name) and re.match("Binlog[A-Z]", node.id):
                assert node.id in known
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                name = node.func.id
                if name in airflow_provider_binlog.__all__:
                    given = {each.arg for each in node.keywords if each.arg is not None}
                    assert given <= parameters(name), name


@pytest.mark.parametrize("page", PAGES_WITH_CODE)
def test_every_command_is_understood(page: str) -> None:
    parser = argparse.ArgumentParser()
    _add(parser, COMMANDS)
    groups = [command.name for command in COMMANDS if isinstance(command, Group)]
    names = {words for words, _ in _flatten(COMMANDS)} | set(groups)
    called = rf"(?:airflow binlog|python -m {OURS}) "
    text = read(page).replace("\\\n", " ")

    for line in re.findall(rf"^{called}(.*)$", text, re.MULTILINE):
        if "…" not in line:
            # It exits where it does not understand.
            parser.parse_args(shlex.split(line, comments=True))
    for words in re.findall(rf"`{called}([a-z][a-z ]*)", text):
        assert any(f"{words} ".startswith(f"{name} ") for name in names), words


# ------------------------------------------------------------------- types


def _sized(kind: ColumnType, collation: int) -> list[TableMapColumn]:
    sizes = [b"\x01", b"\x02", b"\x03", b"\x04"]
    return [wire.column(kind, size, collation=collation) for size in sizes]


COLUMNS = [
    wire.column(ColumnType.TINY),
    wire.column(ColumnType.SHORT),
    wire.column(ColumnType.INT24),
    wire.column(ColumnType.LONG),
    wire.column(ColumnType.TINY, unsigned=True),
    wire.column(ColumnType.SHORT, unsigned=True),
    wire.column(ColumnType.INT24, unsigned=True),
    wire.column(ColumnType.LONG, unsigned=True),
    wire.column(ColumnType.LONGLONG),
    wire.column(ColumnType.LONGLONG, unsigned=True),
    wire.column(ColumnType.YEAR),
    wire.column(ColumnType.FLOAT, b"\x04"),
    wire.column(ColumnType.DOUBLE, b"\x08"),
    wire.column(ColumnType.NEWDECIMAL, b"\x0a\x02"),
    wire.column(ColumnType.NEWDECIMAL, b"\x0a\x02", unsigned=True),
    wire.column(ColumnType.NEWDECIMAL, b"\x41\x1e"),
    wire.column(ColumnType.BIT, b"\x01\x00"),
    wire.column(ColumnType.BIT, b"\x00\x08"),
    wire.column(ColumnType.DATE),
    wire.column(ColumnType.DATETIME2, b"\x00"),
    wire.column(ColumnType.DATETIME2, b"\x06"),
    wire.column(ColumnType.TIMESTAMP2, b"\x00"),
    wire.column(ColumnType.TIMESTAMP2, b"\x06"),
    wire.column(ColumnType.TIME2, b"\x00"),
    wire.column(ColumnType.TIME2, b"\x06"),
    wire.char(80),
    wire.varchar(80),
    *_sized(ColumnType.BLOB, wire.UTF8MB4),
    wire.column(ColumnType.ENUM, b"\x01", enum_values=(b"a", b"b")),
    wire.column(ColumnType.SET, b"\x01", set_members=(b"a", b"b")),
    wire.char(20, collation=wire.BINARY),
    wire.varchar(20, collation=wire.BINARY),
    *_sized(ColumnType.BLOB, wire.BINARY),
    wire.column(ColumnType.VARCHAR_COMPRESSED, b"\x51\x00"),
    wire.column(ColumnType.BLOB_COMPRESSED, b"\x02"),
    wire.column(ColumnType.VARCHAR_COMPRESSED, b"\x15\x00", collation=wire.BINARY),
    wire.column(ColumnType.BLOB_COMPRESSED, b"\x04", collation=wire.BINARY),
    *(wire.column(ColumnType.GEOMETRY, b"\x04", geometry_type=n) for n in (*range(1, 8), 0)),
    wire.column(ColumnType.JSON, b"\x04"),
    wire.column(ColumnType.VECTOR, b"\x04", vector_dimension=3),
    *(
        replace(wire.char(size, collation=wire.BINARY), data_type=data_type)
        for data_type, size in (("uuid", 16), ("inet4", 4), ("inet6", 16))
    ),
]
"""One of every kind that is decoded, in the order of the page."""

NEVER_LOGGED = {
    # The log has BLOB with a size, VARCHAR and DATE in their places.
    *(ColumnType.TINY_BLOB, ColumnType.MEDIUM_BLOB, ColumnType.LONG_BLOB),
    *(ColumnType.VAR_STRING, ColumnType.NEWDATE),
}


def test_the_table_of_types_is_what_a_layout_gives() -> None:
    documented = [
        (mysql, *quoted(staged), *quoted(lake))
        for types, staged, lake, _value in cells(read("docs/types.md"), "| MySQL, MariaDB |")
        for mysql in quoted(types)
    ]

    layouts = [compile_layout(wire.table(column)).columns[0] for column in COLUMNS]
    compiled = [
        (each.mysql_type, str(each.arrow_type), spark_type(str(each.arrow_type)))
        for each in layouts
    ]

    assert documented == compiled


def test_every_type_is_documented_or_refused() -> None:
    documented = {ColumnType(column.real_type) for column in COLUMNS}

    for kind in set(ColumnType) - documented - NEVER_LOGGED:
        with pytest.raises(UnsupportedError):
            compile_layout(wire.table(wire.column(kind, b"\x02\x00")))


# ------------------------------------------------------------------- limits


def test_every_required_setting_is_documented() -> None:
    needed = {name for name, *_ in cells(read("docs/connection.md"), "| variable |")}
    documented = {name for cell in needed for name in quoted(cell)}

    assert {"binlog_format", "server_id", "lower_case_table_names"} <= documented


def test_every_refused_event_is_documented() -> None:
    rows = cells(read("docs/limits.md"), "| events in the log |")
    documented = {name for events, *_ in rows for name in quoted(events)}

    assert documented == {event.name for event in REFUSED}


def test_every_event_that_is_read_is_documented() -> None:
    rows = cells(read("docs/changes-by-example.md"), "| read events |")
    documented = [name for events, *_ in rows for name in quoted(events)]

    assert sorted(documented) == sorted(each.name for each in EventType if each not in REFUSED)


def test_every_error_has_its_section() -> None:
    page = read("docs/troubleshooting.md")
    classes = [each for _, each in inspect.getmembers(errors, inspect.isclass)]
    kinds = [each for each in classes if issubclass(each, BinlogError) and each is not BinlogError]

    assert sorted(re.findall(r"^## (\w+)", page, re.MULTILINE)) == [each.__name__ for each in kinds]
    for kind in kinds:
        section = page.partition(f"## {kind.__name__}\n")[2].partition("\n## ")[0]
        assert ("*retried*" in section) == kind.retryable


def test_every_message_that_is_listed_occurs() -> None:
    files = (ROOT / OURS).rglob("*.py")
    nodes = [node for path in files for node in ast.walk(ast.parse(path.read_text()))]
    texts = {node.value for node in nodes if isinstance(node, ast.Constant)}
    messages = "\n".join(text for text in texts if isinstance(text, str))
    lines = re.findall(r"^- (`.*?`): ", read("docs/troubleshooting.md"), re.MULTILINE | re.DOTALL)

    listed = [" ".join(message.split()) for line in lines for message in quoted(line)]
    assert len(listed) > 50
    assert [message for message in listed if message not in messages] == []


def test_an_error_names_its_section() -> None:
    error = errors.PositionPurgedError("the server purged the log", file="binlog.000004")
    error.name_section()

    anchor = "docs/troubleshooting.md#positionpurgederror"
    assert str(error) == f"the server purged the log (see={anchor}, file=binlog.000004)"


def test_every_public_name_is_in_the_reference() -> None:
    listed = re.findall(rf"^\.\. auto\w+:: {OURS}\.(\w+)$", read("docs/reference.md"), re.MULTILINE)

    assert sorted(listed) == sorted(airflow_provider_binlog.__all__)


# ------------------------------------------------------------------- metrics


def test_every_metric_that_is_sent_is_documented_and_drawn() -> None:
    sent = set(re.findall(r'"binlog\.(\w+)"', read("airflow_provider_binlog/hooks/metrics.py")))
    tables = "".join(name for name, *_ in cells(read("docs/monitoring.md"), "| metric |"))
    panels = json.loads(read("docs/_static/grafana.json"))["panels"]
    drawn = " ".join(target["expr"] for panel in panels for target in panel["targets"])

    assert sent == {name.removeprefix("binlog.") for name in quoted(tables)}
    assert sent == set(re.findall(r"airflow_binlog_([a-z_]+[a-z])", drawn))


# ------------------------------------------------------------------- command line


def _flatten(commands: Sequence[Command | Group], words: str = "") -> Iterator[tuple[str, Command]]:
    for command in commands:
        if isinstance(command, Group):
            yield from _flatten(command.commands, f"{words}{command.name} ")
        else:
            yield words + command.name, command


def test_every_command_and_every_option_is_documented() -> None:
    page = read("docs/command-line.md")

    for words, command in _flatten(COMMANDS):
        (section,) = re.findall(rf"^## `{words} .*?(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
        # What a command prints may name options of another one.
        section = re.sub(r"^```text$.*?^```$", "", section, flags=re.MULTILINE | re.DOTALL)
        options = {name for each in command.arguments for name in each.names if name[:2] == "--"}
        # All commands have `--output`.
        named = set(re.findall(r"[` ](--[a-z-]+)", section)) | {"--output"}
        assert options == named


# ------------------------------------------------------------------- tests that are named


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_every_named_test_exists(page: str) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", read(f"docs/{page}"))

    for path, test in named:
        source = read(path)
        assert not test or re.search(rf"^\s*(async )?def {test}\(", source, re.MULTILINE)


def test_every_guarantee_names_a_test() -> None:
    page = read("docs/guarantees.md")
    promises = re.split(r"^## \d", page, flags=re.MULTILINE)[1:]

    assert len(promises) == 8
    assert all("`tests/" in promise for promise in promises)


def test_every_module_of_the_architecture_exists() -> None:
    page = read("docs/architecture.md")
    named = set(re.findall(r"`([a-z_]+(?:/[a-z_]+)*(?:/|\.py))`", page))
    package = ROOT / "airflow_provider_binlog"
    rooms = {path.name for path in package.iterdir() if (path / "__init__.py").exists()}

    assert [each for each in sorted(named) if not (package / each).exists()] == []
    assert {each.strip("/") for each in named} >= rooms - {"example_dags"}
