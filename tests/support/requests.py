"""What to stage, as tests request it."""

from __future__ import annotations

from typing import Any

from airflow_provider_binlog.capture.log_range import ExtractRequest, TableFilter
from airflow_provider_binlog.changes import BeforeImages, OnTableError
from airflow_provider_binlog.position import Flavor, Position, SourceIdentity


def a_request(
    start: Position, stop: Position, *, flavor: Flavor = Flavor.MYSQL, **arguments: Any
) -> ExtractRequest:
    """Return what to stage; unless given, a table that cannot be captured fails the range."""
    defaults: dict[str, Any] = {
        "identity": SourceIdentity(flavor, "a-server", "binlog"),
        "sequence": 1,
        "tables": TableFilter(["*.*"]),
        "source_name": "shop",
        "before_images": BeforeImages.KEY_CHANGES,
        "created_by": "a test",
        "on_table_error": OnTableError.FAIL,
    }
    return ExtractRequest(start, stop, **(defaults | arguments))
