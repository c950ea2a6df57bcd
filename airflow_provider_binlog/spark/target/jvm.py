"""Access to the classes of the JVM."""

# ruff: noqa: SLF001  PySpark has no other way.

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaClass  # type: ignore[import-untyped]
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

from airflow_provider_binlog.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CLASSES = {
    "delta": "org.apache.spark.sql.delta.DeltaLog",
    "iceberg": "org.apache.iceberg.spark.Spark3Util",
    "postgresql": "org.postgresql.Driver",
}
"""A class that each format's jars bring, and that the merge uses."""


def java_class(session: SparkSession, name: str) -> Any:
    """Return a Java class by its whole name."""
    jvm: Any = session.sparkContext._jvm
    return JavaClass(name, jvm._gateway_client)


def set_active(session: SparkSession) -> None:
    """Make a session the one of this thread: what is called without SQL uses that."""
    sessions = java_class(session, "org.apache.spark.sql.classic.SparkSession")
    sessions.setActiveSession(session._jsparkSession)


def check_jars(session: SparkSession, format_: str) -> None:
    """Raise ConfigurationError unless Spark has loaded the jars of a format."""
    name = _CLASSES[format_]
    try:
        java_class(session, "py4j.reflection.ReflectionUtil").classForName(name)
    except Py4JJavaError as error:
        raise ConfigurationError(
            f"Spark has not loaded the jars of {format_}: let the merge's packages=, or "
            "spark.jars.packages, name them, for the versions of Spark and Scala in use",
            missing=name,
            spark=session.version,
        ) from error


def check_catalog(session: SparkSession, name: str) -> None:
    """Raise ConfigurationError if a session lacks a catalog: Spark takes it for a namespace."""
    setting = f"spark.sql.catalog.{name}"
    if session.conf.get(setting, None) is None:
        raise ConfigurationError(
            "Spark has no catalog of this name: correct lake=, or set the catalog in the merge's "
            "conf=, as iceberg_conf(name, folder) does",
            lake=name,
            missing=setting,
        )
