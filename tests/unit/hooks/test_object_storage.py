"""One staging location, named for Airflow and for Spark."""

from __future__ import annotations

import pytest
from airflow.sdk import BaseHook, Connection

from airflow_provider_binlog.errors import ConfigurationError, ConnectionNotFoundError
from airflow_provider_binlog.hooks import object_storage as module
from airflow_provider_binlog.hooks.object_storage import (
    lake_location,
    open_store,
    reach,
    spark_location,
)
from airflow_provider_binlog.table_options import TableOptions, TableRules


@pytest.mark.parametrize(
    ("location", "for_spark"),
    [
        ("s3://conn@lake/staging", "s3a://lake/staging"),
        ("s3://lake/staging", "s3a://lake/staging"),
        ("s3a://lake", "s3a://lake"),
        ("s3://conn@lake/team#1/a?b", "s3a://lake/team#1/a?b"),
        ("gs://conn@lake/a/b", "gs://lake/a/b"),
        ("gcs://lake/a/b", "gs://lake/a/b"),
        ("file:///data/staging", "file:///data/staging"),
        ("/data/staging", "file:///data/staging"),
        ("hdfs://name:8020/x", "hdfs://name:8020/x"),
        (
            "abfss://box@account.dfs.core.windows.net/x",
            "abfss://box@account.dfs.core.windows.net/x",
        ),
        (
            "az://box@account.dfs.core.windows.net/x",
            "abfss://box@account.dfs.core.windows.net/x",
        ),
    ],
)
def test_spark_gets_no_connection_id(location: str, for_spark: str) -> None:
    assert spark_location(location) == for_spark


def test_delta_tables_without_names_of_their_own_are_in_a_folder() -> None:
    nothing, target = TableRules(), TableOptions(target="lake.{database}_{table}")

    assert lake_location("delta", "s3://conn@lake/x", nothing) == "s3a://lake/x"
    named = lake_location("delta", "spark_catalog", TableRules({"*": target}))
    assert named == "spark_catalog"
    assert lake_location("iceberg", "lake", nothing) == "lake"
    for rules in (nothing, TableRules({"shop.*": target})):
        with pytest.raises(ConfigurationError, match="absolute"):
            lake_location("delta", "lake", rules)


def test_a_location_on_azure_names_its_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Spark does; a container is not taken for the id of a connection."""
    with pytest.raises(ConfigurationError, match="container@account"):
        spark_location("abfs://conn@box/x")
    reached: list[str] = []

    def reach_plainly(location: str) -> tuple[None, str]:
        reached.append(location)
        return None, "box/x"

    monkeypatch.setattr(module, "reach_plainly", reach_plainly)

    reach("abfss://box@account.dfs.core.windows.net/x")

    assert reached == ["abfss://box@account.dfs.core.windows.net/x"]


def test_a_connection_needs_the_provider_that_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = Connection(conn_id="conn", conn_type="google_cloud_platform")
    monkeypatch.setattr(BaseHook, "get_connection", lambda *_: connection)

    with pytest.raises(ConfigurationError, match="no provider is installed"):
        open_store("gs://conn@lake/staging")


def test_a_connection_that_does_not_exist_is_refused_at_once() -> None:
    with pytest.raises(ConnectionNotFoundError, match="no_such_connection"):
        open_store("s3://no_such_connection@lake/staging")


def test_a_password_in_a_location_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigurationError, match="no password") as caught:
        open_store("s3://user:geheim@lake/staging")

    assert "geheim" not in str(caught.value)


def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="nosuch"):
        open_store("nosuch://lake/staging")


def test_what_is_written_is_below_the_location(tmp_path: object) -> None:
    store = open_store(f"file://{tmp_path}/staging")

    store.write("a/b", b"c")

    assert store.read("a/b") == b"c"


def test_a_relative_path_is_refused() -> None:
    for use in (open_store, spark_location):
        with pytest.raises(ConfigurationError, match="lake/staging"):
            use("lake/staging")
