"""Every Python block of the pages runs, after the imports that its page takes for granted.

Of what is for a shell, what needs no server is tried here, the rest in
tests/integration/test_docs.py.
"""

from __future__ import annotations

import hmac
import itertools
import re
import sys
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from types import EllipsisType, ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from airflow import sdk
from airflow.configuration import conf
from airflow.sdk.exceptions import AirflowFailException

import airflow_provider_binlog as package
from airflow_provider_binlog import BinlogExtractOperator, BinlogSource
from airflow_provider_binlog.hooks.binlog import BinlogHook
from tests.unit.test_docs import PAGES_WITH_CODE, blocks, read

if TYPE_CHECKING:
    from collections.abc import Callable

OF_SESSIONS = {"docs/backlog.md": 1, "docs/consistent-reads.md": 2, "docs/tutorial.md": 1}
"""Count of blocks, by page, that read with a session of Spark: tests with one run those.

`tests/unit/spark/test_data_source.py`, and in `tests/integration` `test_published.py` and
`test_tutorial.py`.
"""

IN_A_DAG = {"docs/snapshots.md"}
"""Their blocks are tasks of a DAG that the reader has."""


def needs_session(block: str) -> bool:
    return re.search(r"\bspark\.(read|dataSource|table)|\(spark, ", block) is not None


def complete(make: Callable[..., sdk.DAG]) -> Callable[..., sdk.DAG]:
    """Return the one call, which takes `...` for the arguments that a page leaves out."""
    numbers = itertools.count()

    def call(*given: object, **named: Any) -> sdk.DAG:
        arguments: dict[str, Any] = named
        if any(isinstance(value, EllipsisType) for value in given):
            arguments = {
                "schedule": None,
                "tables": ["shop.*"],
                "staging_path": "/staging",
                "format": "delta",
                "lake": "/lake",
            } | named
        names = [value for value in given if not isinstance(value, EllipsisType)]
        defaults = [f"docs_{next(numbers)}", BinlogSource("shop", start="now")]
        return make(*names, *defaults[len(names) :], **arguments)

    return call


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Names that the blocks of a page need, and do not import."""
    slack = ModuleType("airflow.providers.slack.notifications.slack")
    # It is not installed.
    vars(slack)["SlackNotifier"] = lambda **_: None
    for name in ("slack", "slack.notifications", "slack.notifications.slack"):
        monkeypatch.setitem(sys.modules, f"airflow.providers.{name}", slack)
    ours = {name: getattr(package, name) for name in package.__all__}
    shop = BinlogSource("shop", start="now")
    with sdk.DAG("docs", schedule=None):
        stage = BinlogExtractOperator(
            task_id="staged", source=shop, staging_path="/staging", tables=["shop.*"]
        )
    return {
        **ours,
        **{name: getattr(sdk, name) for name in ("DAG", "Asset", "AssetAlias", "dag", "task")},
        "AirflowFailException": AirflowFailException,
        "SHOP": shop,
        "STAGING": "/staging",
        "stage": stage,
        "extract": stage,
        "secret": "secret",
        "hmac": hmac,
        "sys": sys,
        "timedelta": timedelta,
    }


@pytest.mark.parametrize("page", [page for page in PAGES_WITH_CODE if blocks(page, "python")])
def test_blocks_run(
    page: str, named: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    of_page = blocks(page, "python")
    of_sessions = [block for block in of_page if needs_session(block)]
    assert len(of_sessions) == OF_SESSIONS.get(page, 0)
    call = complete(named["binlog_to_lake_dag"])
    monkeypatch.setattr(package, "binlog_to_lake_dag", call, raising=False)
    named["binlog_to_lake_dag"] = call

    for block in of_page:
        if block not in of_sessions:
            with sdk.DAG("block", schedule=None) if page in IN_A_DAG else nullcontext():
                exec(compile(block, page, "exec"), named)  # noqa: S102  It is ours.


@pytest.mark.parametrize(
    "value",
    [
        value
        for page in PAGES_WITH_CODE
        for value in re.findall(
            r"^AIRFLOW_CONN_BINLOG_DEFAULT='(.*?)'$", read(page), re.DOTALL | re.MULTILINE
        )
    ],
)
def test_a_connection_in_the_environment_is_understood(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_BINLOG_DEFAULT", value)

    settings = BinlogHook().settings

    assert (settings.user, settings.password, settings.port) == ("replica", "...", 3306)
    assert settings.ssl_mode in ("required", "verify_ca", "verify_identity")


@pytest.mark.parametrize("page", PAGES_WITH_CODE)
def test_every_option_of_airflow_exists(page: str) -> None:
    options = re.findall(r"\bAIRFLOW__([A-Z]+)__([A-Z_]+)", read(page))
    options += re.findall(r"`\[([a-z]+)\] ([a-z_]+)`", read(page))

    assert [name for name in options if not conf.has_option(name[0].lower(), name[1].lower())] == []
