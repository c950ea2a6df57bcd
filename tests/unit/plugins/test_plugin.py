"""The plugin: light in every process, mounted, and linked to from tasks."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from importlib.metadata import entry_points
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import conf
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_binlog import BinlogSource, errors
from airflow_provider_binlog.hooks.tasks import fail_unless_retryable
from airflow_provider_binlog.operators.extract import (
    BinlogCheckpointOperator,
    BinlogExtractOperator,
)
from airflow_provider_binlog.operators.links import (
    BinlogErrorLink,
    BinlogManifestLink,
    BinlogSourceLink,
    page_url,
)
from airflow_provider_binlog.plugins.help import read_sections

_HEAVY = ("fastapi", "jinja2", "numpy", "pyarrow", "pymysql", "pyspark")


def test_airflow_finds_the_plugin_and_loads_nothing_heavy_with_it() -> None:
    (found,) = entry_points(group="airflow.plugins", name="binlog")
    # Airflow's own imports come first.
    program = (
        "import sys; import airflow.sdk, airflow.sdk.plugins_manager; before = set(sys.modules);"
        f"import {found.module} as module; module.BinlogPlugin;"
        f"print([name for name in {_HEAVY} if name in set(sys.modules) - before],"
        "[name for name in sys.modules if name.startswith('airflow_provider_binlog.plugins')])"
    )

    printed = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout

    assert printed.splitlines()[-1].startswith("[] ['airflow_provider_binlog.plugins'")
    assert "application" not in printed


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("http://airflow", "http://airflow/plugin/binlog/binlog/source?name=a%2Fb"),
        ("https://host/af/", "https://host/af/plugin/binlog/af/binlog/source?name=a%2Fb"),
    ],
)
def test_links_lead_into_airflows_ui_wherever_it_is(
    base: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conf, "get", lambda *_, **__: base)

    assert page_url("source", name="a/b") == expected


def link_of(link: Any, operator: Any) -> str:
    return str(link.get_link(operator, ti_key=SimpleNamespace(dag_id="shop")))


def test_a_task_links_to_its_source_and_to_what_it_staged() -> None:
    arguments: Any = {"staging_path": "/s", "tables": []}
    extract = BinlogExtractOperator(
        task_id="stage", source=BinlogSource("shop & co", start="now"), **arguments
    )
    mapped = BinlogExtractOperator(task_id="mapped", source={"name": "shop"}, **arguments)
    checkpoint = BinlogCheckpointOperator(task_id="checkpoint", staged={"source": "shop"})

    assert link_of(BinlogSourceLink(), extract).endswith("source?dag_id=shop&name=shop+%26+co")
    assert link_of(BinlogSourceLink(), mapped).endswith("source?dag_id=shop&name=shop")
    assert link_of(BinlogSourceLink(), checkpoint).endswith("source?dag_id=shop&name=shop")
    assert link_of(BinlogManifestLink(), extract) == ""
    extract.staged = {"source": "shop", "last_sequence": 7}
    assert link_of(BinlogManifestLink(), extract).endswith(
        "manifest?dag_id=shop&name=shop&sequence=7"
    )
    lost = BinlogCheckpointOperator(task_id="lost", staged=None)  # type: ignore[arg-type]
    assert link_of(BinlogSourceLink(), lost) == ""


def test_a_task_that_failed_links_to_what_the_docs_say_of_its_error() -> None:
    arguments: Any = {"source": "shop", "staging_path": "/s", "tables": []}
    context: Any = {"ti": SimpleNamespace(dag_id="d", run_id="r", task_id="t")}
    extract = BinlogExtractOperator(task_id="stage", **arguments)
    with pytest.raises(AirflowFailException, match="source is a BinlogSource"):
        extract.execute(context)

    assert link_of(BinlogErrorLink(), extract).endswith("/error?name=ConfigurationError")
    with fail_unless_retryable():
        pass
    # As where a process runs several tasks.
    assert link_of(BinlogErrorLink(), extract) == ""


def test_the_page_has_what_the_docs_say_of_every_error() -> None:
    classes = [each for _, each in inspect.getmembers(errors, inspect.isclass)]
    sections = read_sections()

    assert set(sections) == {
        each.__name__
        for each in classes
        if issubclass(each, errors.BinlogError) and each is not errors.BinlogError
    }
    said = sections["ChecksumError"]
    assert "the file is damaged" in said
    assert '<a href="error?name=FormatError">FormatError</a>' in said
    # Other pages of the docs are named.
    assert "keep its log longer (docs/servers.md)" in sections["PositionPurgedError"]
    assert re.findall(r'href="(?!error\?|https:)', "".join(sections.values())) == []
    assert "<code>server_id</code>" in sections["IdentityClashError"]
