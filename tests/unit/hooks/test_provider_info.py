"""The provider's metadata is valid, and agrees with the code."""

from __future__ import annotations

import json
from importlib import import_module
from importlib.metadata import entry_points
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
from airflow.providers_manager import ProvidersManager

import airflow_provider_binlog as binlog
from airflow_provider_binlog.get_provider_info import get_provider_info
from airflow_provider_binlog.sources.settings import SSL_MODES, ConnectionSettings

INFO: dict[str, Any] = get_provider_info()
CONNECTION_TYPE = INFO["connection-types"][0]


def test_airflow_accepts_it() -> None:
    schema = json.loads(files("airflow").joinpath("provider_info.schema.json").read_text())

    jsonschema.validate(INFO, schema)


def test_it_is_found_by_its_entry_point() -> None:
    (entry,) = entry_points(group="apache_airflow_provider", name="provider_info").select(
        value="airflow_provider_binlog.get_provider_info:get_provider_info"
    )

    assert entry.load() is get_provider_info


@pytest.mark.parametrize("kind", ["hooks", "sensors", "triggers", "operators"])
def test_its_modules_exist(kind: str) -> None:
    for part in INFO[kind]:
        for name in part["python-modules"]:
            import_module(name)


def test_every_operator_is_declared() -> None:
    declared = {name for part in INFO["operators"] for name in part["python-modules"]}
    exported = {name for name in dir(binlog) if name.endswith("Operator")}

    assert {getattr(binlog, name).__module__ for name in exported} == declared


def test_its_functions_exist() -> None:
    for path in [*INFO["cli"], CONNECTION_TYPE["hook-class-name"]]:
        module, _, name = path.rpartition(".")
        assert hasattr(import_module(module), name)


def test_the_hook_bears_the_names_that_are_declared() -> None:
    module, _, name = CONNECTION_TYPE["hook-class-name"].rpartition(".")
    hook = getattr(import_module(module), name)

    assert hook.conn_type == CONNECTION_TYPE["connection-type"]
    assert hook.hook_name == CONNECTION_TYPE["hook-name"]


def test_the_form_has_the_fields_that_are_read() -> None:
    example = {
        "ssl_mode": "required",
        "get_server_public_key": True,
        "enable_cleartext_plugin": True,
        **dict.fromkeys(("connect_timeout", "read_timeout", "query_timeout", "server_id"), 1),
    }
    extra = {name: example.get(name, "/a/path") for name in CONNECTION_TYPE["conn-fields"]}

    settings = ConnectionSettings.from_fields(
        host=None, port=None, login=None, password=None, extra=extra
    )

    assert {name: getattr(settings, name) for name in extra} == extra


def test_the_form_offers_every_ssl_mode() -> None:
    modes = CONNECTION_TYPE["conn-fields"]["ssl_mode"]["schema"]["enum"]

    assert [mode for mode in modes if mode] == list(SSL_MODES)


def test_airflow_draws_the_form_from_it() -> None:
    manager = ProvidersManager()  # type: ignore[no-untyped-call]

    assert manager.field_behaviours["binlog"]["hidden_fields"] == ["schema"]
    drawn = {name for name in manager.connection_form_widgets if "__binlog__" in name}
    assert drawn == {f"extra__binlog__{name}" for name in CONNECTION_TYPE["conn-fields"]}
