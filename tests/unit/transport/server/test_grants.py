"""Which databases a grant covers, as SHOW GRANTS prints it."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_binlog.transport.server import setup

USER = "TO `u`@`%`"


def covers(monkeypatch: pytest.MonkeyPatch, *grants: str) -> Any:
    monkeypatch.setattr(setup, "_list_grants", lambda _: setup.parse_grants(grants))
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
        # As under sql_mode=ANSI_QUOTES, and sql_quote_show_create=0.
        ('GRANT LOCK TABLES ON "shop".*', "shop", True),
        ("GRANT LOCK TABLES ON shop.*", "shop", True),
    ],
)
def test_a_database_is_covered(
    monkeypatch: pytest.MonkeyPatch, grant: str, database: str, covered: bool
) -> None:
    has = covers(monkeypatch, "GRANT USAGE ON *.* TO `u`@`%`", f"{grant} {USER}")

    assert has(database) is covered


def test_a_grant_that_names_the_database_counts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = f"GRANT LOCK TABLES ON `sh%`.* {USER}"

    has = covers(monkeypatch, pattern, f"GRANT SELECT ON `shop`.* {USER}")

    assert not has("shop")
    assert has("shelf")
