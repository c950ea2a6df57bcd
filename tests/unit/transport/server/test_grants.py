"""Which databases a grant covers, as SHOW GRANTS prints it."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_binlog.transport.server import setup

USER = "TO `u`@`%`"


def covers(monkeypatch: pytest.MonkeyPatch, *grants: str) -> Any:
    def query(_: object, statement: str) -> list[dict[str, str]]:
        if statement.startswith("SELECT CURRENT_ROLE"):
            return [{"roles": "NONE"}]
        return [{"Grants for u@%": grant} for grant in grants]

    monkeypatch.setattr(setup, "query", query)
    connection: Any = None
    return setup.read_grants(connection, "LOCK TABLES")


@pytest.mark.parametrize(
    ("grant", "database", "covered"),
    [
        ("GRANT USAGE ON *.*", "shop", False),
        ("GRANT SELECT, LOCK TABLES, EVENT ON *.*", "any thing", True),
        ("GRANT ALL PRIVILEGES ON `shop`.*", "shop", True),
        ("GRANT LOCK TABLES ON `shop`.*", "shop2", False),
        ("GRANT LOCK TABLES ON `shop\\_%`.*", "shop_eu", True),
        ("GRANT LOCK TABLES ON `shop\\_%`.*", "shops", False),
        ("GRANT LOCK TABLES ON `sh_p`.*", "shop", True),
        ("GRANT LOCK TABLES ON `a``b.c`.*", "a`b.c", True),
        ("GRANT SELECT, UPDATE ON `shop`.*", "shop", False),
        ("GRANT SELECT (`LOCK TABLES`) ON `shop`.`t`", "shop", False),
    ],
)
def test_a_database_is_covered(
    monkeypatch: pytest.MonkeyPatch, grant: str, database: str, covered: bool
) -> None:
    has = covers(monkeypatch, "GRANT USAGE ON *.* TO `u`@`%`", f"{grant} {USER}")

    assert has(database) is covered
