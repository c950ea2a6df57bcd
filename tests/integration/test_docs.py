"""The pages as a reader types them: SQL, option files, and commands of Airflow."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

import pytest

from airflow_provider_binlog.cli.commands import main
from tests.fixtures.mysql import newest_file, query
from tests.services.servers import Server
from tests.support.ranges import end_of
from tests.support.stores import open_store
from tests.unit.test_docs import OURS, PAGES_WITH_CODE, blocks, read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.fixtures.airflow import Airflow
    from tests.fixtures.mysql import Database

pytestmark = pytest.mark.server

OF_SPARK = {"consistent-reads", "databricks", "layout"}
"""Pages whose SQL is for the engine of a lake."""

ELSEWHERE = {"changes-by-example"}
"""Its own test runs its SQL, with what it becomes."""

PAGES_WITH_SQL = [
    page
    for page in PAGES_WITH_CODE
    if blocks(page, "sql") and page[5:-3] not in OF_SPARK | ELSEWHERE
]

TABLES = (
    "CREATE TABLE orders (id INT PRIMARY KEY, state VARCHAR(20))",
    "CREATE TABLE prices (id INT PRIMARY KEY, price INT)",
    "CREATE TABLE customers (id INT PRIMARY KEY, email TEXT, city TEXT, phone TEXT)",
)
"""Tables of applications that pages write to."""

OF_AMAZON = (
    "CREATE PROCEDURE mysql.rds_set_configuration(name VARCHAR(60), value INT) DO 0",
    "CREATE PROCEDURE mysql.rds_show_configuration() DO 0",
)
"""Stand-ins for procedures of RDS and Aurora: only their arguments are checked."""


class Account(NamedTuple):
    """The database of a test as the pages' `shop`, and a user that is there as their `replica`."""

    database: Database
    user: str

    def here(self, text: str) -> str:
        """Return the text of a page with the names of this test."""
        text = re.sub(r"\breplica\b", self.user, text)
        return re.sub(r"\bshop\.", f"{self.database.name}.", text)


@pytest.fixture
def account(database: Database) -> Iterator[Account]:
    database.execute(*TABLES)
    account = Account(database, f"replica_{database.name}")
    yield account
    database.execute(f"DROP USER IF EXISTS {account.user}")


def statements_for(server: Server, page: str) -> Iterator[str]:
    """Yield the statements of a page, without those that it says are for another kind."""
    other = "MariaDB" if server.name.startswith("mysql") else "MySQL"
    for block in blocks(page, "sql"):
        lines = [re.split(r"\s+-- ", f"{line} -- ") for line in block.splitlines()]
        text = "\n".join(line for line, comment, *_ in lines if not comment.startswith(other))
        yield from filter(None, (part.strip() for part in re.split(r";(?:\n|$)", text)))


@pytest.mark.parametrize("page", PAGES_WITH_SQL)
def test_the_sql_of_a_page_runs_and_its_account_may_capture(page: str, account: Account) -> None:
    database = account.database
    statements = [*statements_for(database.server, page)]
    makes_account = any(statement.startswith("CREATE USER") for statement in statements)
    if not makes_account:
        database.execute(f"CREATE USER {account.user} IDENTIFIED BY '...'")

    database.execute(*OF_AMAZON)
    try:
        database.execute(*map(account.here, statements))
    finally:
        names = (statement.split()[2].split("(")[0] for statement in OF_AMAZON)
        database.execute(*(f"DROP PROCEDURE {name}" for name in names))

    if makes_account:
        (password,) = re.findall(r"CREATE USER .* BY '(.*)'", "\n".join(statements))
        server = database.server
        address = f"mysql://{account.user}:{password}@{server.host}:{server.port}"
        assert main(["check", address, "--tables", f"{database.name}.*"]) == 0


OPTION_FILES = [
    (page, number, "mysql97" if "[mysqld]" in block else "mariadb118")
    for page in PAGES_WITH_CODE
    for number, block in enumerate(blocks(page, "ini"))
]


@pytest.mark.parametrize(("page", "number", "name"), OPTION_FILES)
def test_a_server_with_the_option_file_of_a_page_can_be_captured(
    page: str, number: int, name: str, tmp_path: Path
) -> None:
    _section, *lines = blocks(page, "ini")[number].splitlines()
    options = dict(line.split(" = ") for line in lines)
    server = Server.create(name, tmp_path / "server")
    server.start(options)
    try:
        assert main(["check", server.dsn]) == 0
        variables = dict(query(server, "SHOW GLOBAL VARIABLES"))
    finally:
        server.stop()

    # An option file names the log; the variable says whether there is one.
    options["log_bin"] = "ON"
    assert {name: variables[name] for name in options} == options


# ------------------------------------------------------------------- commands

_COMMAND = rf"(?:airflow|python -m {OURS}) "

NOT_RUN = tuple(f"{way} sync " for way in ("airflow binlog", f"python -m {OURS}"))
"""It needs Spark: `tests/integration/test_sync.py` runs it."""


def commands(page: str) -> list[str]:
    """Return the commands of a page: lines of blocks, and those of Airflow's own in sentences."""
    text = read(page).replace("\\\n", " ")
    found = re.findall(rf"^{_COMMAND}.*$|(?<=`)airflow (?!binlog)[^`]+(?=`)", text, re.MULTILINE)
    return [line for line in found if "…" not in line and not line.startswith(NOT_RUN)]


COMMANDS = {
    page: found
    for page in PAGES_WITH_CODE
    if page != "docs/tutorial.md" and (found := commands(page))
}
"""By page, but for the tutorial, whose own test runs it."""

UNPAUSE = "airflow dags unpause "


class Reader(NamedTuple):
    """Who types commands of pages, into an Airflow of their own, for the database of a test."""

    account: Account
    airflow: Airflow
    replaced: dict[str, str]

    def enter(self, command: str) -> None:
        """Run a command, with what is different here."""
        for of_page, here in self.replaced.items():
            command = command.replace(of_page, here)
        words = shlex.split(self.account.here(command), comments=True)
        if words[0] == "airflow":
            self.airflow.call("run_command", words[1:])
        else:
            assert main(words[3:]) == 0


@pytest.fixture
def reader(
    mysql97: Server,
    create_database: Callable[[Server], Database],
    create_airflow: Callable[..., Airflow],
    tmp_path: Path,
) -> Iterator[Reader]:
    database = create_database(mysql97)
    user = f"replica_{database.name}"
    database.execute(
        *TABLES,
        f"CREATE USER {user} IDENTIFIED BY '...'",
        f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {user}",
        f"GRANT SELECT, LOCK TABLES ON {database.name}.* TO {user}",
        # Other tests log on this server what is refused.
        "FLUSH BINARY LOGS",
    )
    replaced = {
        "--conn-host db.example.com": f"--conn-host {mysql97.host} --conn-port {mysql97.port}",
        "@db.example.com": f"@{mysql97.host}:{mysql97.port}",
        # The certificate that the server made is of no host.
        "verify_identity": "verify_ca",
        "/etc/ssl/db-ca.pem": str(mysql97.data / "ca.pem"),
        "s3://lake_s3@lake/staging": f"file://{tmp_path}/staging",
        "/path/to/binlog.000042": str(mysql97.data / newest_file(mysql97)),
        "binlog.000042:4": f"{newest_file(mysql97)}:4",
        "binlog.000007:5120": str(end_of(mysql97)),
        "--to 41": "--to 1",
    }
    airflow = create_airflow(AIRFLOW__CORE__DAGS_FOLDER=str(tmp_path / "dags"))
    yield Reader(Account(database, user), airflow, replaced)
    database.execute(f"DROP USER {user}")


def write_dags(folder: Path) -> set[str]:
    """Write those DAGs of the pages that their commands name; return their names."""
    folder.mkdir()
    every = [command for found in COMMANDS.values() for command in found]
    names = {line.removeprefix(UNPAUSE) for line in every if line.startswith(UNPAUSE)}
    for name in names:
        (block,) = (
            block for page in COMMANDS for block in blocks(page, "python") if f'"{name}"' in block
        )
        (folder / f"{name}.py").write_text(block)
    return names


def test_every_command_of_the_pages_runs(reader: Reader, tmp_path: Path) -> None:
    dags = write_dags(tmp_path / "dags")
    (connect,) = (line for line in COMMANDS["docs/glue.md"] if "add binlog_default" in line)
    extract = "airflow binlog extract shop s3://lake_s3@lake/staging --conn binlog_default"
    reader.enter("airflow dags reserialize")
    reader.enter(connect)
    reader.enter(f"{extract} --tables 'shop.*' --start now")
    reader.account.database.execute("INSERT INTO orders VALUES (1, 'new')")
    reader.enter(f"{extract} --tables 'shop.*'")
    reader.enter("airflow binlog checkpoint rebuild shop s3://lake_s3@lake/staging")
    (lake,) = re.findall(r"--lake (\w+)", "".join(COMMANDS["docs/cleanup.md"]))
    open_store(f"file://{tmp_path}/staging").write(f"shop/_merged/{lake}/note", b"")

    for typed in COMMANDS.values():
        reader.airflow.query("DELETE FROM connection")
        if not any("add binlog_default" in command for command in typed):
            reader.enter(connect)
        for command in typed:
            reader.enter(command)

    unpaused = reader.airflow.query("SELECT dag_id FROM dag WHERE NOT is_paused")
    assert {name for (name,) in unpaused} >= dags
