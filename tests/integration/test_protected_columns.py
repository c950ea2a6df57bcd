"""Columns that must not leave the server: excluded and hashed ones, from a server into a lake."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_binlog.cli import staging
from airflow_provider_binlog.cli.commands import main
from tests.random_ddl.between_tasks import open_dag
from tests.support.protected import Protected, find_planted
from tests.unit.spark.session import shared_session

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.fixtures.mysql import Database
    from tests.random_ddl.one_call import OneCall
    from tests.services.servers import Server

pytestmark = [pytest.mark.server, pytest.mark.timeout(900)]

SECRET = "pepper and salt"
PLANTED = "PLANTED"
IN_MEMORY = ["mysql97-memory", "mariadb118-memory"]
BY_SPARK = [
    pytest.param(which, marks=[pytest.mark.slow, pytest.mark.spark])
    for which in ("mysql97-delta", "mariadb118-iceberg", "mysql97-postgresql")
]


class Shop:
    """A database whose protected values all hold a planted text, and the DAG that captures it."""

    def __init__(self, database: Database, folder: Path, dag: Callable[..., OneCall]) -> None:
        self.database, self.folder = database, folder
        self.dag = dag(account={"extra": {"hash_secret": SECRET}}, select=self._select)
        self.protected = Protected(("password",), ("email",), SECRET)

    def _select(self, database: Database) -> Any:
        return self.protected.select(database)

    def protect(self, table: str = "customers", **options: Any) -> None:
        """Exclude and hash columns of a table from now on."""
        self.dag.configure({f"{self.database.name}.{table}": options})

    def expect(self, *, excluded: tuple[str, ...], hashed: tuple[str, ...]) -> None:
        """Say which columns the lake lacks, and has hashes of."""
        self.protected = Protected(excluded, hashed, SECRET)

    def run(self, capfd: pytest.CaptureFixture[str], between: Any = lambda *_: None) -> None:
        """Run the DAG; nothing planted is in any file, in what tasks return or in a log."""
        self.dag.run(between)
        printed = capfd.readouterr()
        assert "BinlogPositionSensor" in printed.out
        texts = repr(self.dag.returned), printed.out, printed.err
        found = find_planted(self.folder, [PLANTED, SECRET], *texts)
        assert found == []


@pytest.fixture(params=IN_MEMORY)
def shop(
    request: pytest.FixtureRequest, create_database: Callable[[Server], Database], tmp_path: Path
) -> Shop:
    server, format_ = request.param.split("-")
    database = create_database(request.getfixturevalue(server))

    def spark() -> SparkSession:
        return shared_session(request.getfixturevalue("spark_environment"))

    def open_(**options: Any) -> OneCall:
        if format_ == "postgresql":
            options["postgresql"] = request.getfixturevalue("postgresql18")
        return open_dag([database], format_, tmp_path, spark, **options)

    return Shop(database, tmp_path, open_)


CUSTOMERS = (
    (
        "CREATE TABLE customers (id INT PRIMARY KEY, email VARCHAR(60) NOT NULL,"
        f" password VARCHAR(60) DEFAULT '{PLANTED}-default', name VARCHAR(60)) CHARSET latin1"
    ),
    (
        f"INSERT INTO customers VALUES (1, 'Zoë@{PLANTED}', '{PLANTED}-1', 'Zoë'),"
        f" (2, 'b@{PLANTED}', NULL, NULL), (3, 'c@{PLANTED}', '{PLANTED}-3', 'c')"
    ),
)


@pytest.mark.parametrize("shop", [*IN_MEMORY, *BY_SPARK], indirect=True)
def test_excluded_and_hashed_columns_are_loaded_and_merged(
    shop: Shop, capfd: pytest.CaptureFixture[str]
) -> None:
    shop.database.execute(*CUSTOMERS)
    shop.protect(exclude_columns=["password"], hash_columns=["email"])
    shop.run(capfd)
    assert shop.dag.held == {}

    shop.database.execute(
        f"INSERT INTO customers VALUES (4, 'D@{PLANTED}', '{PLANTED}-4', 'd')",
        f"UPDATE customers SET email = 'd@{PLANTED}', password = '{PLANTED}-new' WHERE id = 4",
        "DELETE FROM customers WHERE id = 1",
    )
    shop.run(capfd)

    assert shop.dag.held == {}
    assert shop.dag.equal == 2


def test_ddl(shop: Shop, capfd: pytest.CaptureFixture[str]) -> None:
    shop.database.execute(*CUSTOMERS)
    shop.protect(exclude_columns=["password"], hash_columns=["email"])
    shop.run(capfd)
    shop.database.execute(
        "ALTER TABLE customers RENAME COLUMN password TO pw, ADD COLUMN n INT NOT NULL DEFAULT 7",
        f"INSERT INTO customers VALUES (5, 'e@{PLANTED}', '{PLANTED}-5', 'e', 1)",
        f"ALTER TABLE customers MODIFY pw VARCHAR(70) DEFAULT '{PLANTED}-other',"
        f" CHANGE email mail VARCHAR(200) NOT NULL DEFAULT '{PLANTED}-mail'",
        "INSERT INTO customers (id, name) VALUES (6, 'f')",
    )
    shop.expect(excluded=("pw",), hashed=("mail",))
    shop.run(capfd)
    assert shop.dag.held == {}


TYPES = {
    "t": "TINYINT", "u": "BIGINT UNSIGNED", "d": "DECIMAL(12,4)", "e": "DECIMAL(65,30)",
    "f": "FLOAT", "g": "DOUBLE", "b": "BIT(1)", "c": "BIT(20)", "y": "YEAR", "dt": "DATE",
    "ti": "TIME(3)", "da": "DATETIME(6)", "ts": "TIMESTAMP(2) NULL", "ch": "CHAR(9)",
    "v": "VARCHAR(30) CHARACTER SET latin1", "w": "TEXT CHARACTER SET utf16",
    "bi": "BINARY(6)", "vb": "VARBINARY(9)", "bl": "BLOB", "en": "ENUM('x','ü')",
    "se": "SET('a','b','ü')", "js": "JSON",
}  # fmt: skip
VALUES = [
    dict.fromkeys(TYPES),
    {
        "t": -5, "u": 2**64 - 1, "d": "1.5", "e": "-12345678901234567890.5", "f": "0.1",
        "g": "1e300", "b": 1, "c": 70000, "y": 2026, "dt": "'2026-02-28'", "ti": "'-12:00:00.25'",
        "da": "'2026-01-02 03:04:05'", "ts": "'2026-01-02 03:04:05.5'", "ch": "'a  '",
        "v": "'Zoë '", "w": "'Zoë 😀'", "bi": "'ab'", "vb": "x'00ff'", "bl": "x'ff00'",
        "en": "'ü'", "se": "'b,ü'", "js": "'{\"a\": [1, 2.50, null]}'",
    },
    {
        "t": 0, "u": 0, "d": "0", "e": "0", "f": "0", "g": "-2.5", "b": 0, "c": 0, "y": 0,
        "dt": "'1000-01-01'", "ti": "'00:00:00'", "da": "'2026-01-02 03:04:05.100000'",
        "ts": "'2026-01-02 03:04:05'", "ch": "''", "v": "''", "w": "''", "bi": "''", "vb": "''",
        "bl": "''", "en": "'x'", "se": "''", "js": "'1'",
    },
]  # fmt: skip


def test_values_of_every_type(shop: Shop, capfd: pytest.CaptureFixture[str]) -> None:
    columns = ", ".join(f"{name} {type_}" for name, type_ in TYPES.items())
    shop.database.execute(f"CREATE TABLE typed (id INT PRIMARY KEY, {columns})")
    rows = [
        ", ".join("NULL" if row[name] is None else str(row[name]) for name in TYPES)
        for row in VALUES
    ]
    shop.protect("typed", hash_columns=list(TYPES))
    shop.expect(excluded=(), hashed=tuple(TYPES))
    insert = [
        "INSERT INTO typed VALUES " + ", ".join(f"({n}, {r})" for n, r in enumerate(rows, at))
        for at in (0, 10)
    ]
    shop.database.execute("SET SESSION time_zone = '+00:00'", insert[0])
    shop.run(capfd)
    assert shop.dag.held == {}

    shop.database.execute("SET SESSION time_zone = '+00:00'", insert[1])
    shop.run(capfd)
    assert shop.dag.held == {}
    assert shop.dag.equal == 2


def test_columns_keep_their_protection_under_other_names(
    shop: Shop, capfd: pytest.CaptureFixture[str]
) -> None:
    shop.database.execute(*CUSTOMERS)
    shop.protect(exclude_columns=["password", "pin"], hash_columns=["email"])
    shop.run(capfd)
    assert shop.dag.held == {}

    # Of names that change in one statement, and of a column that comes under a name of the options.
    shop.database.execute(
        "ALTER TABLE customers RENAME COLUMN password TO email, RENAME COLUMN email TO mail",
        f"ALTER TABLE customers ADD COLUMN Pin VARCHAR(30) NOT NULL DEFAULT '{PLANTED}-pin' FIRST",
        f"INSERT INTO customers (id, mail, email) VALUES (7, 'g@{PLANTED}', '{PLANTED}-7')",
        "ALTER TABLE customers ADD COLUMN number INT NOT NULL DEFAULT 7",
        "RENAME TABLE customers TO clients",
        f"INSERT INTO clients (id, mail, email) VALUES (8, 'h@{PLANTED}', '{PLANTED}-8')",
        "CREATE TABLE copied LIKE clients",
        f"INSERT INTO copied (id, mail, email, name) VALUES (1, '{PLANTED}', '{PLANTED}', 'x')",
    )
    shop.expect(excluded=("email", "Pin"), hashed=("mail",))
    shop.run(capfd)
    assert shop.dag.held == {}

    # A table that gh-ost makes, and one that takes its columns from nobody.
    shop.database.execute(
        "CREATE TABLE customers (id INT PRIMARY KEY, email VARCHAR(9), pin VARCHAR(60))",
        "CREATE TABLE _customers_gho (id INT PRIMARY KEY, email VARCHAR(60), pin VARCHAR(60))",
        f"INSERT INTO _customers_gho VALUES (1, '{PLANTED}', '{PLANTED}')",
        "RENAME TABLE customers TO _customers_del, _customers_gho TO customers",
        f"INSERT INTO customers VALUES (2, '{PLANTED}', '{PLANTED}')",
        "DROP TABLE clients, copied",
    )
    shop.expect(excluded=("pin",), hashed=("email",))
    shop.run(capfd)
    assert shop.dag.held == {}


@pytest.mark.slow
def test_a_column_that_was_renamed_before_a_snapshot(
    shop: Shop, capfd: pytest.CaptureFixture[str]
) -> None:
    shop.database.execute(*CUSTOMERS)
    shop.protect(exclude_columns=["password"], hash_columns=["email"])
    shop.run(capfd)
    # What no lake can follow: the table waits for a snapshot.
    shop.database.execute("ALTER TABLE customers ADD COLUMN n INT AUTO_INCREMENT UNIQUE")
    shop.run(capfd)
    assert list(shop.dag.held) == ["customers"]

    shop.database.execute("ALTER TABLE customers RENAME COLUMN password TO pw")
    shop.expect(excluded=("pw",), hashed=("email",))
    shop.run(capfd)
    assert "may be the same one" in repr(shop.dag.returned)
    assert list(shop.dag.held) == ["customers"]

    shop.dag.settle()
    shop.run(capfd)
    assert shop.dag.held == {}


@pytest.mark.slow
def test_a_table_that_was_renamed_before_a_snapshot(
    shop: Shop, capfd: pytest.CaptureFixture[str]
) -> None:
    shop.database.execute(*CUSTOMERS)
    shop.protect(exclude_columns=["password"], hash_columns=["email"])
    shop.run(capfd)

    shop.database.execute("RENAME TABLE customers TO clients")
    shop.run(capfd)
    assert "may be the same one" in repr(shop.dag.returned)

    shop.dag.settle()
    shop.run(capfd)
    assert shop.dag.held == {}


@pytest.mark.slow
def test_options_that_change(shop: Shop, capfd: pytest.CaptureFixture[str]) -> None:
    database = shop.database
    rows = ", ".join(f"({n}, 'mail {n}', 'pw {n}', 'name {n}')" for n in range(5))
    database.execute(CUSTOMERS[0].replace(PLANTED, "PW"), f"INSERT INTO customers VALUES {rows}")
    shop.expect(excluded=(), hashed=())
    shop.run(capfd)
    assert shop.dag.held == {}

    # From now on the lake has neither the column nor its values; what it is to hash waits.
    shop.protect(exclude_columns=["password"])
    shop.expect(excluded=("password",), hashed=())
    database.execute(f"UPDATE customers SET password = '{PLANTED}' WHERE id = 1")
    shop.run(capfd)
    assert shop.dag.held == {}

    shop.protect(exclude_columns=["password"], hash_columns=["email"])
    shop.expect(excluded=("password",), hashed=("email",))
    database.execute(f"UPDATE customers SET email = '{PLANTED}' WHERE id = 2")
    shop.run(capfd)
    assert "the options hash column email from here on" in shop.dag.held["customers"]
    shop.dag.settle()

    # Another secret.
    shop.dag.account["extra"] = {"hash_secret": "another"}
    shop.protected = Protected(("password",), ("email",), "another")
    database.execute(f"UPDATE customers SET email = '{PLANTED}' WHERE id = 3")
    shop.run(capfd)
    assert "hash column email with another secret" in shop.dag.held["customers"]
    shop.dag.settle()

    # Neither any more: older rows are in no log.
    database.execute("UPDATE customers SET email = 'x', password = 'y'")
    shop.run(capfd)
    shop.dag.configure({})
    shop.expect(excluded=(), hashed=())
    database.execute("UPDATE customers SET name = 'z' WHERE id = 4")
    shop.run(capfd)
    assert shop.dag.held["customers"].startswith("stale")
    shop.dag.settle()
    assert shop.dag.held == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    "grants", ["SELECT (id, email, name)", "SELECT (id, email, name), REFERENCES"]
)
def test_an_account_without_a_right_on_excluded_columns(
    shop: Shop, grants: str, capfd: pytest.CaptureFixture[str]
) -> None:
    database = shop.database
    account = f"'clerk_{database.name}'@'%'"
    database.execute(
        *CUSTOMERS,
        f"CREATE USER {account} IDENTIFIED BY 'pw'",
        f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {account}",
        f"GRANT {grants} ON {database.name}.customers TO {account}",
    )
    extra = shop.dag.account["extra"] | {"get_server_public_key": True}
    shop.dag.account |= {"login": f"clerk_{database.name}", "password": "pw", "extra": extra}
    shop.protect(exclude_columns=["password"], hash_columns=["email"])
    shop.run(capfd)
    assert shop.dag.held == {}

    database.execute(f"UPDATE customers SET email = '{PLANTED}', password = '{PLANTED}'")
    shop.run(capfd)
    assert shop.dag.held == {}
    assert shop.dag.equal == 2


def test_hashed_keys(shop: Shop, capfd: pytest.CaptureFixture[str]) -> None:
    rows = ", ".join(f"('{PLANTED} {n}', {n % 3}, {n})" for n in range(40))
    shop.database.execute(
        "CREATE TABLE members (mail VARCHAR(60), part INT, n INT, PRIMARY KEY (mail, part))"
        " CHARSET utf8mb4 COLLATE utf8mb4_general_ci",
        f"INSERT INTO members VALUES {rows}",
        "CREATE TABLE codes (id INT, code DECIMAL(9,2), n INT, PRIMARY KEY (id, code))",
        f"INSERT INTO codes VALUES {', '.join(f'({n}, {n}.5, {n})' for n in range(40))}",
        "ANALYZE TABLE members, codes",
    )
    shop.dag.configure(
        {f"{shop.database.name}.*": {"hash_columns": ["mail", "code"], "exclude_columns": ["x"]}}
    )
    shop.expect(excluded=(), hashed=("mail", "code"))
    shop.run(capfd)
    assert shop.dag.held == {}
    # Bounds of chunks are values: a key that begins with a hashed column has none.
    _, codes, members, *_ = shop.dag.returned
    assert codes["chunks"] > 1
    assert members["chunks"] == 1

    shop.database.execute(
        # Equal to the collation, and other values.
        "UPDATE members SET mail = LOWER(mail) WHERE n = 1",
        f"UPDATE members SET mail = 'moved {PLANTED}' WHERE n = 2",
        "DELETE FROM members WHERE n = 3",
        f"INSERT INTO members VALUES ('{PLANTED} 3', 0, -3)",
        "UPDATE codes SET code = code + 1 WHERE id = 4",
        "UPDATE codes SET n = -1 WHERE id = 5",
    )
    shop.run(capfd)
    assert shop.dag.held == {}
    assert shop.dag.equal == 4


def test_row_images_that_lack_columns(shop: Shop, capfd: pytest.CaptureFixture[str]) -> None:
    database, is_mysql = shop.database, shop.database.server.name == "mysql97"
    database.execute(
        "CREATE TABLE customers (id INT PRIMARY KEY, email VARCHAR(60) DEFAULT '', password JSON,"
        " doc JSON, up VARCHAR(60) AS (UPPER(email)) STORED, kind ENUM('a', 'b') DEFAULT 'b',"
        " n INT)",
    )
    shop.dag.configure(
        {
            f"{database.name}.*": {
                "hash_columns": ["email"],
                "exclude_columns": ["password", "kind", "up"],
            }
        }
    )
    shop.expect(excluded=("password", "kind", "up"), hashed=("email",))
    document = f'{{"{PLANTED}": "{"x" * 200}"}}'
    shop.run(capfd)
    with closing(database.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(f"SET SESSION binlog_row_image = '{'MINIMAL' if is_mysql else 'NOBLOB'}'")
        if is_mysql:
            cursor.execute("SET SESSION binlog_row_value_options = 'PARTIAL_JSON'")
        for statement in (
            (
                "INSERT INTO customers (id, email, password, doc, n)"
                f" VALUES (1, '{PLANTED}', '{document}', NULL, 1)"
            ),
            "INSERT INTO customers (id, email, doc, n) VALUES (2, NULL, '[1, 2]', NULL)",
            f"UPDATE customers SET password = JSON_SET(password, '$.{PLANTED}', '{PLANTED}')",
            f"UPDATE customers SET email = '{PLANTED} 2', n = 5 WHERE id = 1",
            "UPDATE customers SET kind = 'a' WHERE id = 2",
        ):
            cursor.execute(statement)
    shop.run(capfd)
    assert shop.dag.held == {}


TABLES = (
    "CREATE TABLE texts (id INT PRIMARY KEY, email VARCHAR(60), password VARCHAR(60)) CHARSET sjis",
    (
        f"CREATE TABLE enums (id INT PRIMARY KEY, email ENUM('{PLANTED}', 'b'),"
        f" password SET('{PLANTED}'))"
    ),
    (
        "CREATE TABLE computed (id INT PRIMARY KEY, email VARCHAR(40), n INT,"
        f" password VARCHAR(60) AS (CONCAT(email, '{PLANTED}')) STORED)"
    ),
    "CREATE TABLE keyless (email VARCHAR(40), password VARCHAR(40), n INT)",
    (
        "CREATE TABLE parts (id INT, email VARCHAR(30), password INT, PRIMARY KEY (id, email))"
        f" PARTITION BY LIST COLUMNS(email) (PARTITION a VALUES IN ('{PLANTED}'),"
        " PARTITION b VALUES IN ('y'))"
    ),
)


@pytest.mark.slow
def test_literals_of_statements_are_nowhere(shop: Shop, capfd: pytest.CaptureFixture[str]) -> None:
    database = shop.database
    database.execute(*TABLES)
    options = {"exclude_columns": ["password"], "hash_columns": ["email"]}
    shop.dag.configure({f"{database.name}.*": options})
    shop.run(capfd)

    database.execute(
        f"INSERT INTO texts VALUES (1, '{PLANTED}', '{PLANTED}')",
        f"INSERT INTO enums VALUES (1, '{PLANTED}', '{PLANTED}')",
        f"INSERT INTO computed (id, email, n) VALUES (1, '{PLANTED}', 1)",
        f"INSERT INTO keyless VALUES ('{PLANTED}', '{PLANTED}', 1), ('{PLANTED}', '{PLANTED}', 1)",
        f"INSERT INTO parts VALUES (1, '{PLANTED}', 1)",
        f"ALTER TABLE enums MODIFY email ENUM('{PLANTED}', 'b', 'c{PLANTED}') DEFAULT 'c{PLANTED}'",
        "INSERT INTO enums (id) VALUES (2)",
        f"ALTER TABLE computed ADD CONSTRAINT c CHECK (email <> 'c{PLANTED}')",
        f"ALTER TABLE parts ADD PARTITION (PARTITION c VALUES IN ('c{PLANTED}'))",
        f"ALTER TABLE keyless COMMENT '{PLANTED}', MODIFY email VARCHAR(40) COMMENT '{PLANTED}'",
        (
            "CREATE TABLE late (id INT PRIMARY KEY, email VARCHAR(9) DEFAULT"
            f" '{PLANTED}', password VARCHAR(9) DEFAULT '{PLANTED}') SELECT 1 AS id"
        ),
        (
            "CREATE TRIGGER counts BEFORE INSERT ON computed FOR EACH ROW"
            f" SET NEW.n = LENGTH('{PLANTED}')"
        ),
        "UPDATE parts SET email = 'y' WHERE id = 1",
        "DELETE FROM keyless LIMIT 1",
    )
    shop.run(capfd)
    database.execute(
        "SET SESSION sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'",
        "ALTER TABLE computed ALTER COLUMN email SET DEFAULT 'a\\', ADD COLUMN \"q\" INT,"
        f" ADD CHECK (email <> '{PLANTED}\\')",
        "INSERT INTO computed (id, n) VALUES (9, 1)",
        "SET SESSION sql_mode = ''",
        "ALTER TABLE enums MODIFY email ENUM('b') NOT NULL",
    )
    shop.run(capfd)
    shop.dag.settle()
    assert shop.dag.held == {}


def test_what_is_staged_by_hand_is_staged_as_by_the_dag(
    shop: Shop, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    database, server = shop.database, shop.database.server
    database.execute(*CUSTOMERS)
    shop.protect(exclude_columns=["password"], hash_columns=["email"])
    shop.run(capfd)
    database.execute(f"INSERT INTO customers VALUES (4, 'D@{PLANTED}', '{PLANTED}-4', 'd')")

    monkeypatch.setattr(staging, "MetastoreVariableStore", lambda: shop.dag._variables)
    address = f"mysql://root@{server.host}:{server.port}/?ssl_mode=disabled"
    words = [
        shop.dag._source,
        shop.dag._staging,
        "--conn",
        address,
        "--tables",
        f"{database.name}.*",
    ]
    assert main(["extract", *words]) == 1
    assert "hash_secret" in capfd.readouterr().err
    words[3] += f"&hash_secret={SECRET.replace(' ', '%20')}"
    for command in ("extract", "snapshot"):
        assert main([command, *words, "-o", "json"]) == 0
    printed = capfd.readouterr()
    assert find_planted(shop.folder, [PLANTED, SECRET], printed.out, printed.err) == []

    database.execute("UPDATE customers SET name = 'e' WHERE id = 4")
    shop.run(capfd)
    assert shop.dag.held == {}


def test_what_cannot_be_is_refused_by_name(shop: Shop, capfd: pytest.CaptureFixture[str]) -> None:
    shop.database.execute(*CUSTOMERS, "CREATE TABLE other (id INT PRIMARY KEY)")
    shop.protect(exclude_columns=["id"])
    shop.expect(excluded=(), hashed=())

    def write(seam: str, _: str) -> None:
        if seam == "stage":
            shop.database.execute(f"UPDATE customers SET name = '{PLANTED}'")

    shop.run(capfd, write)
    refused = f"table={shop.database.name}.customers, column=id"
    assert "cannot be excluded, since it identifies rows" in repr(shop.dag.returned)
    assert refused in repr(shop.dag.returned)
    staged = shop.dag.returned[-2]
    assert "(column=id)" in staged["quarantined"][f"{shop.database.name}.customers"]["reason"]

    shop.dag.account["extra"] = {}
    shop.protect(hash_columns=["email"])
    shop.database.execute("INSERT INTO other VALUES (2)")
    with pytest.raises(AirflowFailException, match=r"hash_secret.*conn_id=binlog_default"):
        shop.dag.run()
