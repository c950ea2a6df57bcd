"""Logs of whole transactions, and what is staged of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.capture.extract import extract
from airflow_provider_binlog.position import Flavor, Position, SourceIdentity
from tests.support import builder
from tests.support.logs import TABLES, Made, insert, maps, query, write_files
from tests.support.requests import a_request
from tests.unit.capture.staging import CutSource, Files, capture, end_of, file_source

if TYPE_CHECKING:
    from collections.abc import Sequence

XID = Made(EventType.XID, builder.xid(1))
A = TABLES[0]
CHANGE = [maps(A, Flavor.MYSQL), insert(A, [1])]
IDENTITY = SourceIdentity(Flavor.MYSQL, "a-server", "binlog")
CUTS = pytest.mark.parametrize("cut", [(), range(60)], ids=["whole", "single"])


def gtid(number: int) -> Made:
    return Made(EventType.GTID, builder.gtid(number))


def transaction(number: int, *events: Made, end: Made = XID) -> list[Made]:
    return [gtid(number), query("BEGIN"), *events, end]


def a_log(*files: Sequence[Made], flavor: Flavor = Flavor.MYSQL) -> Files:
    return write_files(files, flavor)


def run(files: Files, cut: Sequence[int] = (), **arguments: Any) -> Any:
    cuts = dict.fromkeys(files, cut)
    return capture(CutSource(files, cuts), end_of(files), **arguments)


def stage(files: Files, start: Position, stop: Position, store: Any, **arguments: Any) -> Any:
    return extract(a_request(start, stop, **arguments), file_source(files), store)
