"""The DAGs of the demo, run by Airflow from the sensor to the checkpoint."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from airflow_provider_binlog.cli.commands import main
from tests.support.lake import Lake
from tests.support.lineage import file_transport, read_ends
from tests.support.secrets import files_with, watched_processes
from tests.support.shop_dag import DAG_ID, create_shop_airflow, submit_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures.airflow import Airflow
    from tests.fixtures.mysql import Database
    from tests.fixtures.spark import SparkEnvironment
    from tests.services.spark_cluster import SparkCluster


USER, PASSWORD = "captures", f"planted-{uuid4().hex}"
LITERAL = f"literal-{uuid4().hex}"

# Every format on every store, and every server with both; by default the first of them.
COMBINATIONS = [
    ("mariadb1011", "iceberg", "s3"),
    ("mysql97", "delta", "file"),
    ("mariadb1011", "delta", "s3"),
    ("mysql97", "iceberg", "s3"),
]

FIRST_CHANGES = (
    """CREATE TABLE orders (
        id INT PRIMARY KEY, customer BIGINT UNSIGNED, total DECIMAL(12,2), note VARCHAR(40),
        state ENUM('new', 'paid', 'sent'), flags SET('gift', 'fragile'), paid BIT(1),
        weight DOUBLE, placed DATETIME(6), changed TIMESTAMP(3) NULL, due DATE, picked TIME(2),
        document BLOB)""",
    """CREATE TABLE items (
        `order` INT, line TINYINT, sku CHAR(8) NOT NULL, PRIMARY KEY (`order`, line))""",
    """INSERT INTO orders VALUES
        (1, 18446744073709551615, 1.50, 'é漢😀', 'paid', 'gift,fragile', b'1', 0.1,
         '2026-11-20 01:02:03.456789', '2026-11-20 01:02:03.456', '2026-12-24',
         '-12:34:56.78', X'00FF'),
        (2, 0, -20, '', 'new', '', b'0', -1e300,
         '1000-01-01 00:00:00', NULL, '9999-12-31', '00:00:00', ''),
        (3, 7, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)""",
    "INSERT INTO items VALUES (1, 1, 'a'), (1, 2, 'b'), (2, 1, 'a')",
)
LARGE_TABLE = (
    "CREATE TABLE numbers (id INT PRIMARY KEY, text VARCHAR(40))",
    """INSERT INTO numbers
        WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM s WHERE n < 1000)
        SELECT n, CONCAT('this is row ', n) FROM s""",
    "ANALYZE TABLE numbers",
)
MORE_CHANGES = (
    "UPDATE orders SET note = 'changed', changed = '2026-11-21 00:00:00.5' WHERE id = 2",
    "DELETE FROM orders WHERE id = 3",
    "INSERT INTO orders (id, note) VALUES (3, 'again'), (5, 'short-lived')",
    "DELETE FROM orders WHERE id = 5",
    # Two rows exchange their keys.
    "BEGIN",
    "UPDATE orders SET id = 4 WHERE id = 1",
    "UPDATE orders SET id = 1 WHERE id = 2",
    "UPDATE orders SET id = 2 WHERE id = 4",
    "COMMIT",
    "BEGIN",
    "INSERT INTO orders (id, note) VALUES (9, 'rolled back')",
    "ROLLBACK",
    "BEGIN",
    "INSERT INTO orders (id, total) VALUES (6, 6.66)",
    "INSERT INTO items VALUES (6, 1, 'c'), (6, 2, 'd')",
    "DELETE FROM items WHERE `order` = 2",
    "COMMIT",
    "CREATE TABLE visits (id BIGINT UNSIGNED PRIMARY KEY, page VARCHAR(20)) CHARACTER SET latin1",
    "INSERT INTO visits VALUES (18446744073709551615, 'größe')",
)


@pytest.fixture(params=COMBINATIONS, ids="-".join)
def combination(request: pytest.FixtureRequest) -> tuple[str, str, str]:
    found: tuple[str, str, str] = request.param
    return found


@pytest.fixture
def database(
    combination: tuple[str, str, str],
    request: pytest.FixtureRequest,
    create_database: Callable[..., Database],
) -> Database:
    return create_database(request.getfixturevalue(combination[0]))


@pytest.fixture
def lake(combination: tuple[str, str, str], request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    _, format_, store = combination
    if store == "s3":
        return Lake.on_s3(format_, request.getfixturevalue("s3_server"))
    return Lake.in_folder(format_, tmp_path)


@pytest.fixture
def airflow(
    create_airflow: Callable[..., Airflow],
    database: Database,
    lake: Lake,
    spark_environment: SparkEnvironment,
) -> Airflow:
    set_password(database, PASSWORD)
    account = {"login": USER, "password": PASSWORD}
    return create_shop_airflow(create_airflow, database, lake, spark_environment, **account)


@pytest.fixture
def on_cluster(airflow: Airflow, spark_cluster: SparkCluster) -> Iterator[None]:
    """A standalone cluster, whose workers share nothing with the tasks but the store."""
    submit_to(spark_cluster, airflow)
    yield
    assert [each["state"] for each in spark_cluster.state()["completedapps"]] == ["FINISHED"]


def set_password(database: Database, password: str) -> None:
    """Give the account that captures this password."""
    database.execute(
        f"DROP USER IF EXISTS '{USER}'@'%'",
        f"CREATE USER '{USER}'@'%' IDENTIFIED BY '{password}'",
        f"GRANT REPLICATION SLAVE, REPLICATION CLIENT, LOCK TABLES, SELECT ON *.* TO '{USER}'@'%'",
    )


@pytest.mark.spark
@pytest.mark.timeout(900)  # Its Spark job is a process of its own.
@pytest.mark.parametrize("combination", COMBINATIONS[:1], ids="-".join, indirect=True)
@pytest.mark.usefixtures("on_cluster")
@pytest.mark.fault("cluster", servers="mariadb1011", lakes="iceberg", stores="s3")
def test_an_old_database_and_another_run_without_changes(
    airflow: Airflow,
    database: Database,
    lake: Lake,
    spark_environment: SparkEnvironment,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lineage = airflow.home / "lineage.json"
    airflow.variables["AIRFLOW__OPENLINEAGE__TRANSPORT"] = file_transport(lineage)
    unlogged = (*FIRST_CHANGES, *LARGE_TABLE)
    database.execute("SET SESSION sql_log_bin = 0", *unlogged)
    database.execute(*MORE_CHANGES)

    with watched_processes(*secrets_of(lake)) as shown:
        states = airflow.run_dag("binlog_shop")

    assert set(states.values()) == {"success"}, states
    assert lake.differences(spark_environment, database) == []
    planned = sorted(table["table"] for table in airflow.returned("plan"))
    # As many tasks as eight chunks of the server's estimate.
    assert planned.count(f"{database.name}.numbers") > 1
    named = "SELECT rendered_map_index, state FROM task_instance WHERE task_id = 'snapshot'"
    read = sorted((name.partition(", chunks ")[0], state) for name, state in airflow.query(named))
    assert read == [(name, "success") for name in planned]
    staged, before = airflow.returned("stage"), airflow.checkpoint()
    assert before["position"]["offset"] == staged["stop"]["offset"]
    merged = {each["table"]: each["status"] for each in airflow.returned("merge")["tables"]}
    names = ("items", "numbers", "orders", "visits")
    assert merged == {f"{database.name}.{each}": "merged" for each in names}
    assert merged.keys() == set(planned)
    ends = read_ends(lineage)
    assert ends.keys() == merged.keys()
    assert ends[f"{database.name}.items"] == {"order", "line", "sku"}

    files = lake.staged_files()
    states = airflow.run_dag("binlog_shop")

    assert states.pop("snapshots_done") == "success"
    assert set(states.values()) == {"skipped"}, states
    assert airflow.checkpoint() == before
    assert lake.staged_files() == files

    assert shown == []
    assert PASSWORD not in lineage.read_text()
    assert_secrets_are_kept(airflow, database, lake, capsys)


@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.slow
@pytest.mark.parametrize(
    "combination",
    [("mysql97", "delta", "file"), ("mariadb1011", "iceberg", "s3")],
    ids="-".join,
    indirect=True,
)
def test_a_stale_table_is_reloaded_while_nothing_is_logged(
    airflow: Airflow, database: Database, lake: Lake, spark_environment: SparkEnvironment
) -> None:
    database.execute(
        "CREATE TABLE visits (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 2",
        "INSERT INTO visits VALUES (1), (2), (3)",
    )
    airflow.run_dag("binlog_shop")
    database.execute("ALTER TABLE visits TRUNCATE PARTITION p0")
    states = airflow.run_dag("binlog_shop")
    (stale,) = airflow.returned("merge")["tables"]

    # The run is red; the checkpoint has moved.
    failed = [task for task, state in states.items() if state == "failed"]
    assert (failed, states["checkpoint"]) == (["tables_live"], "success")
    assert stale["status"] == "stale"

    states = airflow.run_dag("binlog_shop")

    assert set(states.values()) == {"success"}, states
    (live,) = airflow.returned("merge")["tables"]
    assert live["status"] == "merged"
    assert lake.differences(spark_environment, database) == []

    states = airflow.run_dag("binlog_shop")

    assert states.pop("snapshots_done") == "success"
    assert set(states.values()) == {"skipped"}, states


@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.slow
@pytest.mark.parametrize(
    "combination",
    [("mysql97", "delta", "file"), ("mariadb1011", "iceberg", "s3")],
    ids="-".join,
    indirect=True,
)
def test_a_run_that_follows_the_log_stages_and_merges_what_is_logged_meanwhile(
    airflow: Airflow, database: Database, lake: Lake, spark_environment: SparkEnvironment
) -> None:
    airflow.variables["BINLOG_SHOP_FOLLOW"] = "25"
    database.execute(*FIRST_CHANGES)
    stop = Event()

    def write() -> None:
        database.execute(*MORE_CHANGES)
        for number in range(100, 10_000):
            if stop.wait(0.5):
                return
            database.execute(f"INSERT INTO orders (id, note) VALUES ({number}, 'later')")

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        # One task after the other here, in any order: the merge may find nothing staged yet.
        states = airflow.run_dag("binlog_shop")
        stop.set()
        writing.result()

    assert (states["stage"], states["merge"]) == ("success", "success"), states
    staged = airflow.returned("stage")
    manifests = staged["last_sequence"] - staged["first_sequence"] + 1
    # A range every five seconds, each where the one before it stopped.
    assert manifests == len(staged["manifests"]) >= 3
    assert airflow.checkpoint()["sequence"] == staged["last_sequence"]
    # A process without the variable.
    del airflow.variables["BINLOG_SHOP_FOLLOW"]
    airflow.stop()
    states = airflow.run_dag("binlog_shop")

    assert states["merge"] == "success", states
    assert lake.differences(spark_environment, database) == []


def secrets_of(lake: Lake) -> list[str]:
    """Return what nothing may show: two passwords, and a literal of a user's statement."""
    return [PASSWORD, LITERAL, *([lake.s3.secret_key] if lake.s3 else [])]


def assert_secrets_are_kept(
    airflow: Airflow, database: Database, lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    """Let tasks and commands fail, too, and look for secrets in everything that was written.

    Airflow's home has its logs, and in its database XComs, Variables and rendered templates.
    """
    at = airflow.checkpoint()["position"]
    address = f"{USER}:{PASSWORD}@{database.server.host}:{database.server.port}"
    refused = ("SET SESSION binlog_format = STATEMENT", f"UPDATE orders SET note = '{LITERAL}'")
    database.execute(*refused)
    states = airflow.run_dag("binlog_shop")
    assert states["stage"] == "failed", states
    assert main(["rows", f"mysql://{address}", "--from", f"{at['file']}:{at['offset']}"]) == 1

    set_password(database, "another")
    states = airflow.run_dag("binlog_shop")
    assert "failed" in states.values(), states
    for options in ("", "?ssl_mode=verify_ca", "?nonsense=1", ":1/"):
        assert main(["status", f"mysql://{address}{options}"]) == 1

    printed = capsys.readouterr()
    assert "Access denied" in printed.err
    assert "STATEMENT or MIXED" in "".join(
        file.read_text() for file in airflow.home.rglob("*.log") if file.is_file()
    )
    for secret in secrets_of(lake):
        assert secret not in printed.out + printed.err
    assert files_with(airflow.home, *secrets_of(lake)) == []
    assert files_with(lake.files, *secrets_of(lake)) == []


@pytest.mark.slow  # two Spark jobs each
@pytest.mark.spark
def test_three_runs(
    airflow: Airflow, database: Database, lake: Lake, spark_environment: SparkEnvironment
) -> None:
    database.execute(*FIRST_CHANGES)

    states = airflow.run_dag(DAG_ID)

    assert set(states.values()) == {"success"}, states
    assert lake.differences(spark_environment, database) == []
    staged = airflow.returned("stage")
    assert staged["changes"] == {"insert": 6}
    assert staged["tables"] == {f"{database.name}.items": 3, f"{database.name}.orders": 3}
    merged = airflow.returned("merge")["tables"]
    assert {each["table"]: each["rows"]["inserted"] for each in merged} == staged["tables"]
    assert airflow.checkpoint()["position"]["offset"] == staged["stop"]["offset"]

    database.execute(*MORE_CHANGES)

    states = airflow.run_dag(DAG_ID)

    assert set(states.values()) == {"success"}, states
    assert lake.differences(spark_environment, database) == []
    assert airflow.checkpoint()["sequence"] == airflow.returned("stage")["last_sequence"] == 2

    before, files = airflow.checkpoint(), lake.staged_files()
    states = airflow.run_dag(DAG_ID)

    assert set(states.values()) == {"skipped"}, states
    assert airflow.checkpoint() == before
    assert lake.staged_files() == files
