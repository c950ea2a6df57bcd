"""A merge of many tables has few sessions, and so few connections to a catalog."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from types import SimpleNamespace
from typing import Any

from airflow_provider_binlog.spark.job.session import Sessions
from airflow_provider_binlog.spark.target.spark_target import Namespaces


class Spark:
    """What makes sessions, which keep their settings."""

    def __init__(self) -> None:
        self.made: list[dict[str, str]] = []

    def newSession(self) -> Any:  # noqa: N802  PySpark's own habit.
        settings: dict[str, str] = {}
        self.made.append(settings)
        conf = SimpleNamespace(set=settings.__setitem__, get=settings.get)
        return SimpleNamespace(conf=conf, number=len(self.made))


def test_a_thread_has_two_sessions_whatever_it_merges() -> None:
    spark: Any = Spark()
    sessions: Any = Sessions(spark, {"catalog": "own"})
    together = Barrier(3)

    def merge(_: int) -> set[int]:
        together.wait()
        return {sessions.get(few=few).number for few in (True, False) * 50}

    with ThreadPoolExecutor(3) as pool:
        found = [*pool.map(merge, range(3))]

    assert sorted(number for each in found for number in each) == [1, 2, 3, 4, 5, 6]
    adaptive = "spark.sql.adaptive.enabled"
    assert sorted(each[adaptive] for each in spark.made) == ["false"] * 3 + ["true"] * 3
    assert {each["catalog"] for each in spark.made} == {"own"}


def test_a_namespace_is_made_once() -> None:
    ran: list[str] = []
    session: Any = SimpleNamespace(sql=ran.append)
    namespaces = Namespaces()

    for name in ("`lake`.`shop`", "`lake`.`crm`", "`lake`.`shop`"):
        namespaces.create(session, f"{name}.`orders`")
    namespaces.create(session, "delta.`s3a://my.lake/shop`")

    assert ran == [
        "CREATE NAMESPACE IF NOT EXISTS `lake`.`shop`",
        "CREATE NAMESPACE IF NOT EXISTS `lake`.`crm`",
    ]
