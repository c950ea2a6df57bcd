"""What Spark raises, in our words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from airflow_provider_binlog.errors import (
    ConfigurationError,
    MergeError,
    StagingError,
    TargetConflictError,
    UnknownMergeError,
)
from airflow_provider_binlog.spark.job.failures import explain
from airflow_provider_binlog.spark.target.postgresql.types import NUL_REFUSED


def raised_for(name: str, text: str) -> PySparkException:
    """Return what PySpark raises for a Java exception."""
    raised: Any = PySparkException("a task failed")
    raised._origin = SimpleNamespace(
        getClass=lambda: SimpleNamespace(getName=lambda: name),
        getMessage=lambda: text,
        getCause=lambda: None,
    )
    found: PySparkException = raised
    return found


def test_a_session_without_the_settings_of_delta_is_named() -> None:
    raised = raised_for("DeltaAnalysisException", "[DELTA_CONFIGURE_SPARK_SESSION_WITH_EXTENSION]")

    error = explain(raised, table="shop.orders")

    assert isinstance(error, ConfigurationError)
    assert "conf=delta_conf()" in str(error)


def test_files_that_somebody_compacted_meanwhile_are_a_conflict() -> None:
    text = "Cannot commit, missing data files: [file:/lake/shop/orders/data/0.parquet]"
    error = explain(raised_for("org.apache.iceberg.exceptions.ValidationException", text))

    assert type(error) is TargetConflictError
    assert error.retryable


@pytest.mark.parametrize(
    "text",
    [
        "[DELTA_UNSUPPORTED_DROP_PARTITION_COLUMN] Dropping partition columns (n) is not allowed.",
        "[DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE] Cannot alter column n",
        "Cannot delete identifier field 2: n: required int",
    ],
)
def test_a_column_that_something_in_the_lake_depends_on_is_no_failure_that_passes(
    text: str,
) -> None:
    error = explain(raised_for("AnalysisException", text), table="shop.orders")

    assert type(error) is MergeError
    assert "remove there what depends on the column" in str(error)
    assert text in str(error)


def test_a_nul_character_is_refused_with_the_name_of_its_column() -> None:
    text = f"[USER_RAISED_EXCEPTION] {NUL_REFUSED} (column=note) SQLSTATE: P0001"

    error = explain(raised_for("org.apache.spark.SparkRuntimeException", text))

    assert type(error) is MergeError
    assert "on_nul='strip'" in str(error)
    assert "column=note" in str(error)


@pytest.mark.parametrize(
    "name",
    [
        "java.nio.file.AccessDeniedException",
        "org.apache.hadoop.security.AccessControlException",
        "org.apache.iceberg.exceptions.ForbiddenException",
        "software.amazon.awssdk.services.glue.model.AccessDeniedException",
    ],
)
def test_a_lost_permission_does_not_come_back_by_itself(name: str) -> None:
    error = explain(raised_for(name, "403"), table="shop.orders")

    assert isinstance(error, StagingError)
    assert not error.retryable
    assert "grant it to the account" in str(error)


@pytest.mark.parametrize(("status", "kind"), [(403, StagingError), (503, UnknownMergeError)])
def test_a_store_that_denies_access_to_s3fileio_does_not_come_to_grant_it(
    status: int, kind: type[Exception]
) -> None:
    text = f"refused (Service: S3, Status Code: {status}, Request ID: 1) (SDK Attempt Count: 1)"
    error = explain(raised_for("software.amazon.awssdk.services.s3.model.S3Exception", text))

    assert type(error) is kind


def test_a_token_that_expired_may_be_renewed() -> None:
    name = "org.apache.iceberg.exceptions.NotAuthorizedException"

    error = explain(raised_for(name, "Not authorized: the token expired"), table="shop.orders")

    assert error.retryable


def test_any_other_error_may_pass() -> None:
    error = explain(TypeError("another"), table="shop.orders")

    assert isinstance(error, UnknownMergeError)
    assert error.context["cause"] == "TypeError: another"


def test_a_file_that_was_vacuumed_meanwhile_is_not_missed_by_the_next_merge() -> None:
    raised = raised_for("java.io.FileNotFoundException", "No such file: part-00000.parquet")

    error = explain(raised, table="shop.orders")

    assert error.retryable
    assert "removed while" in str(error)
