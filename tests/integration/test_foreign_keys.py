"""Foreign keys that change rows: those that the log is silent about are named, and no others.

With the account of docs/connection.md: information_schema does not show it everything.
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider_binlog.cli.commands import main
from airflow_provider_binlog.operators import extract
from airflow_provider_binlog.sources.binlog_source import BinlogSource
from airflow_provider_binlog.sources.settings import ConnectionSettings
from airflow_provider_binlog.transport.server.tables import (
    ForeignKeys,
    UnloggedForeignKey,
    unlogged_foreign_keys,
)
from tests.fixtures.mysql import Database, execute
from tests.services.servers import Server
from tests.support.ranges import apply, happen, live, select, stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.server

SERVERS: dict[str, tuple[str, dict[str, str], bool]] = {
    "mysql97": ("mysql97", {}, False),
    "mysql97 as before": ("mysql97", {"innodb_native_foreign_keys": "ON"}, True),
    "mysql80": ("mysql80", {}, True),
    "mariadb1011": ("mariadb1011", {}, True),
    "mariadb118": ("mariadb118", {}, True),
}
TABLES = [
    "CREATE TABLE parents (id INT PRIMARY KEY)",
    """CREATE TABLE deleted (id INT PRIMARY KEY, parent INT, CONSTRAINT removal
        FOREIGN KEY (parent) REFERENCES parents (id) ON DELETE CASCADE)""",
    """CREATE TABLE detached (id INT PRIMARY KEY, parent INT, CONSTRAINT none
        FOREIGN KEY (parent) REFERENCES parents (id) ON DELETE SET NULL ON UPDATE CASCADE)""",
    """CREATE TABLE kept (id INT PRIMARY KEY, parent INT COMMENT ') ON DELETE CASCADE,\\n',
        FOREIGN KEY (parent) REFERENCES parents (id) ON DELETE RESTRICT ON UPDATE NO ACTION)
        COMMENT '\\n  CONSTRAINT `x` FOREIGN KEY (`a`) REFERENCES `b` (`c`) ON DELETE CASCADE,'""",
]
# In a database of their own, with a key that leads into another one, and among many others.
STRANGE = [
    """CREATE TABLE `t``w o.%s` (`a``'b",` INT, `é漢) ON DELETE CASCADE` INT,
        PRIMARY KEY (`a``'b",`, `é漢) ON DELETE CASCADE`))""",
    """CREATE TABLE `q``"'(``)` (id INT PRIMARY KEY, `c``,d` INT, `e```` f` INT,
        CONSTRAINT `k``ey` FOREIGN KEY (`c``,d`, `e```` f`)
            REFERENCES `t``w o.%s` (`a``'b",`, `é漢) ON DELETE CASCADE`)
            ON DELETE SET NULL ON UPDATE NO ACTION,
        CONSTRAINT `k` FOREIGN KEY (id) REFERENCES shop.parents (id) ON UPDATE CASCADE)""",
    *(f"CREATE TABLE other{number} (id INT)" for number in range(20)),
]
ROWS = [
    "INSERT INTO parents VALUES (1), (2), (3)",
    "INSERT INTO deleted VALUES (1, 1), (2, 2)",
    "INSERT INTO detached VALUES (1, 1), (2, 2)",
    "INSERT INTO kept VALUES (3, 3)",
]


def create_account(server: Server, *grants: str, user: str = "replica") -> ConnectionSettings:
    execute(
        server,
        f"CREATE USER {user} IDENTIFIED BY 'p'",
        f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {user}",
        *(f"GRANT {grant} TO {user}" for grant in grants),
    )
    return ConnectionSettings.from_dsn(f"mysql://{user}:p@{server.host}:{server.port}")


@pytest.fixture(scope="module", params=list(SERVERS))
def kind(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Server, bool]]:
    """A server of this module alone, and whether it is silent of what foreign keys do."""
    name, options, is_silent = SERVERS[request.param]
    server = Server.create(name, tmp_path_factory.mktemp(name))
    server.start(options)
    try:
        yield server, is_silent
    finally:
        server.stop()


def test_named_is_what_the_log_is_silent_about(
    kind: tuple[Server, bool], capsys: pytest.CaptureFixture[str]
) -> None:
    server, is_silent = kind
    execute(server, "CREATE DATABASE shop", "CREATE DATABASE `o``dd`")
    database = Database(server, "shop")
    happened = happen(
        database, *TABLES, *ROWS, "DELETE FROM kept", "DELETE FROM parents WHERE id = 1"
    )
    execute(server, *STRANGE, database="o`dd")
    replica = create_account(server, "SELECT ON shop.*", "SELECT ON `o``dd`.*")

    staged, expected = apply(stage(live(server), happened)), select(database)

    lost = {name for name in ("deleted", "detached") if staged[name] != expected[name]}
    assert bool(lost) is is_silent
    found = unlogged_foreign_keys(replica.connect, lambda schema, _: schema == "shop")
    assert {each.table for each in found.unlogged} == lost
    everywhere = unlogged_foreign_keys(replica.connect, lambda *_: True)
    if is_silent:
        assert list(map(str, everywhere.unlogged)) == [
            """o`dd.q`"'(`): k ON UPDATE CASCADE""",
            """o`dd.q`"'(`): k`ey ON DELETE SET NULL""",
            "shop.deleted: removal ON DELETE CASCADE",
            "shop.detached: none ON DELETE SET NULL ON UPDATE CASCADE",
        ]
    assert found.unlogged == everywhere.unlogged[2:]
    assert (found.unknown, everywhere.unknown) == ("", "")
    capsys.readouterr()
    assert main(["check", *("--tables", "shop.*", "-o", "json"), address(server, "replica")]) == 0
    checked = json.loads(capsys.readouterr().out)
    assert {(*each["tables"], each["found"]) for each in checked if "foreign" in each["check"]} == {
        (f"shop.{each.table}", f"{each.name} {each.rules}") for each in found.unlogged
    }


def address(server: Server, user: str) -> str:
    return f"mysql://{user}:p@{server.host}:{server.port}"


def test_what_the_account_may_not_see_is_said(
    kind: tuple[Server, bool], capsys: pytest.CaptureFixture[str]
) -> None:
    server, is_silent = kind
    execute(server, "CREATE DATABASE store")
    execute(server, *TABLES, database="store")
    blind = create_account(server, user="blind")
    short = create_account(server, "SELECT ON store.deleted", user="short")
    logged = [("store", "deleted"), ("store", "detached")]

    nothing, logged_only, some = (
        unlogged_foreign_keys(each.connect, lambda schema, _: schema == "store", tables)
        for each, tables in ((blind, []), (blind, logged), (short, logged))
    )

    if not is_silent:
        assert {nothing, logged_only, some} == {ForeignKeys()}
        return
    assert str(nothing) == (
        "not known is whether there are: the account sees none of the tables: if there are any, "
        "it lacks SELECT on them"
    )
    assert "lacks SELECT on store.deleted, store.detached, or" in logged_only.unknown
    assert str(some) == (
        "store.deleted: removal ON DELETE CASCADE; not known is whether there are others: "
        "the account lacks SELECT on store.detached, or they were dropped"
    )
    assert main(["check", "--tables", "store.*", "--output", "plain", address(server, "blind")])
    assert nothing.unknown in capsys.readouterr().out


def test_a_server_that_cannot_be_asked_is_said() -> None:
    away = ConnectionSettings("127.0.0.1", port=1)

    found = unlogged_foreign_keys(away.connect, lambda *_: True)

    assert "could not be queried: Can't connect" in str(found)


def test_many_are_one_line() -> None:
    keys = [UnloggedForeignKey("shop", f"t{n}", "key", "ON DELETE CASCADE") for n in range(13)]

    assert str(ForeignKeys(tuple(keys))).endswith(
        "t9: key ON DELETE CASCADE; and 3 more, which `check` lists"
    )


def test_an_extract_warns_of_those_of_captured_tables(
    mariadb118: Server,
    create_database: Callable[[Server], Database],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database = create_database(mariadb118)
    database.execute(*TABLES)
    create_account(mariadb118, f"SELECT ON {database.name}.*")
    warned: list[str] = []
    log = SimpleNamespace(
        info=lambda *_: None, warning=lambda text, *values: warned.append(text % values)
    )
    variables: dict[str, str] = {}
    store = SimpleNamespace(get=variables.get, set=variables.__setitem__)
    monkeypatch.setattr(extract, "AirflowVariableStore", lambda: store)
    monkeypatch.setattr(extract.BinlogExtractOperator, "log", log)
    monkeypatch.setenv(
        "AIRFLOW_CONN_BINLOG_DEFAULT", f"binlog://replica:p@{mariadb118.host}:{mariadb118.port}"
    )
    operator = extract.BinlogExtractOperator(
        task_id="stage",
        source=BinlogSource("shop", start="now"),
        staging_path=f"file://{tmp_path}",
        tables=[f"{database.name}.*"],
        exclude=["*.deleted"],
    )
    context: Any = {"ti": SimpleNamespace(dag_id="shop", run_id="r", task_id="stage")}

    with pytest.raises(AirflowSkipException):
        operator.execute(context)
    assert not any("foreign key" in text for text in warned)
    database.execute(*ROWS)
    operator.execute(context)

    (warning,) = (text for text in warned if "foreign key" in text)
    assert warning.endswith(
        f": {database.name}.detached: none ON DELETE SET NULL ON UPDATE CASCADE"
    )
