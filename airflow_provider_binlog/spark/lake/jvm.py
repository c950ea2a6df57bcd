"""The way to Java, in few calls: one costs more than what it returns.

The entries of a map, one by one, cost as much as a small commit. So maps are fetched as JSON, and
classes are not looked up name by name as PySpark's `_jvm` does.
"""

# ruff: noqa: SLF001  PySpark has no other way.

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaClass  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def java_class(session: SparkSession, name: str) -> Any:
    """Return a Java class by its whole name."""
    jvm: Any = session.sparkContext._jvm
    return JavaClass(name, jvm._gateway_client)


def read_map(session: SparkSession, java_map: Any) -> dict[str, str]:
    """Return a Java map of texts."""
    mapper = java_class(session, "com.fasterxml.jackson.databind.ObjectMapper")()
    found: dict[str, str] = json.loads(mapper.writeValueAsString(java_map))
    return found
