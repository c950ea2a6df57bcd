"""The merges of one format, measured in a process of their own: prints one JSON object.

Ours and the bare one take turns, each from the same state of the lake; the cheapest round of each
counts. The first of all is not counted, so that every round finds the JVM's classes loaded.
"""

from __future__ import annotations

import json
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from airflow_provider_binlog.spark.target import sql as merge_sql
from airflow_provider_binlog.spark.target.protocol import DELETED
from tests.bench.merge_data import BigTable, SmallTables
from tests.bench.merge_lake import THREADS, BenchLake, Cost, start_spark
from tests.unit.spark.workplace import make_empty

if TYPE_CHECKING:
    from collections.abc import Callable

LOADS = 10
CHANGED = 10


@dataclass(frozen=True)
class Sizes:
    """How much is measured.

    Attributes:
        rows: Rows of the big table; a tenth of them change.
        tables: Small tables that all change.
        names: Tables that the manifests name, of which ten change.
        manifests: Manifests that one merge takes.
        rounds: How often each merge is measured.
    """

    rows: int = 10_000_000
    tables: int = 100
    names: int = 1_000
    manifests: int = 2_000
    rounds: int = 3


class Measurement:
    """All merges of one format."""

    def __init__(self, bench: BenchLake, sizes: Sizes) -> None:
        self.bench, self.sizes, self.spark = bench, sizes, bench.spark
        self.found: dict[str, Any] = {}

    def run(self, parts: list[str]) -> dict[str, Any]:
        """Measure what is asked for."""
        self._warm_up()
        for part in parts:
            getattr(self, part)()
        return self.found

    def _warm_up(self) -> None:
        bench = self.bench
        small = SmallTables(bench.store, "warm", 3)
        small.source.commit()
        bench.merge("warm")
        small.change(small.tables, 1)
        bench.merge("warm")
        self._bare_small("bare_warm", 3, create=True)

    def _rounds(self, name: str, state: str, ways: dict[str, Callable[[], object]]) -> None:
        """Measure ways to do one thing in turns, each from the same state."""
        best: dict[str, Cost] = {}
        for _ in range(self.sizes.rounds):
            for way, work in ways.items():
                self.bench.restore(state)
                with self.bench.measure() as cost:
                    work()
                # So that a run that is cut short says something.
                print(f"{name}, {way}: {cost}", file=sys.stderr, flush=True)
                if way not in best or cost.cpu < best[way].cpu:
                    best[way] = cost
        self.found[name] = {way: asdict(cost) for way, cost in best.items()}

    # One big table.

    def big(self) -> None:
        """Change a tenth of the rows: anywhere, and in the newest tenth of the keys."""
        bench, rows = self.bench, self.sizes.rows
        table, tenth = BigTable(bench.store, "big"), rows // LOADS
        for load in range(LOADS):
            table.commit([("insert", np.arange(load * tenth, (load + 1) * tenth))])
            bench.merge("big")
        bench.save("loaded")
        chance = np.random.default_rng(7)
        anywhere = chance.permutation(rows)[:tenth]
        newest = rows - tenth + chance.permutation(tenth)
        staged = {}
        for name, keys in (("anywhere", anywhere), ("newest", newest)):
            # Half of the keys change twice, a tenth is deleted.
            table.commit(
                [
                    ("update_postimage", np.sort(keys[: tenth // 2])),
                    ("update_postimage", np.sort(keys[: tenth - tenth // 10])),
                    ("delete", np.sort(keys[tenth - tenth // 10 :])),
                ]
            )
            bench.save(name)
            self._write_collapsed(f"collapsed-{name}")
            staged[name] = bench.folder / f"collapsed-{name}"
            bench.restore("loaded")
            table = self._again(table)
        changed = "anywhere", "newest"
        for name in changed:
            ways: dict[str, Callable[[], object]] = {
                "ours": partial(bench.merge, "big"),
                "bare": partial(self._bare_big, staged[name]),
                "rows": partial(self._write_rows, staged[name]),
            }
            self._rounds(f"big_{name}", name, ways)
        shutil.rmtree(bench.folder / "loaded")

    def _again(self, table: BigTable) -> BigTable:
        """Return the table as it was before its last manifest."""
        table.source.sequence -= 1
        last = table.source.log.load(table.source.sequence)
        table.source._start = last.stop.offset
        return table

    def _write_collapsed(self, name: str) -> None:
        """Write what the collapse of the newest manifest is, in Parquet."""
        folder = self.bench.folder
        part = folder / "live/staging/big/bench/accounts"
        newest = max(part.iterdir()).name.split("-")[0]
        files = [str(each) for each in sorted(part.glob(f"{newest}-*"))]
        names = self._names()
        columns = ", ".join(f"v.{name} AS c{index}" for index, name in enumerate(names))
        self.spark.read.parquet(*files).createOrReplaceTempView("staged")
        self.spark.sql(
            f"SELECT {columns}, v._change_type = 'delete' AS deleted FROM (SELECT max_by(struct(*),"
            " _row) AS v FROM staged GROUP BY id)"
        ).write.mode("overwrite").parquet(str(folder / name))

    def _names(self) -> list[str]:
        target = self.bench.lake.target("bench", "accounts")
        return self.spark.table(target).columns

    def _bare_big(self, collapsed: Path) -> None:
        session = self.spark.newSession()
        session.read.parquet(str(collapsed)).createOrReplaceTempView(merge_sql.CHANGES)
        names = self._names()
        target = self.bench.lake.target("bench", "accounts")
        session.sql(merge_sql.merge(target, columns=names, key=[0], nullable=False)).collect()

    def _write_rows(self, collapsed: Path) -> None:
        """Read the changed rows, and write them into a table of their own."""
        session, lake = self.spark.newSession(), self.bench.lake
        like, target = lake.target("bench", "accounts"), lake.target("bench", "copy")
        columns = dict(session.table(like).dtypes)
        make_empty(session, lake, target, columns, {})
        names = ", ".join(f"c{index}" for index in range(len(columns)))
        session.read.parquet(str(collapsed)).createOrReplaceTempView("rows")
        session.sql(f"INSERT INTO {target} SELECT {names} FROM rows")

    # Many small tables.

    def small(self) -> None:
        """Create tables of two rows, and change all of them."""
        bench, count = self.bench, self.sizes.tables
        bench.save("empty")
        many = self._create("created", count)
        bench.restore("staged")
        bench.merge("many")
        self._bare_small("bare", count, create=True)
        bench.save("made")
        many.change(many.tables, 1)
        bench.save("changed")
        self._rounds(
            "changed",
            "changed",
            {
                "ours": lambda: bench.merge("many"),
                "bare": lambda: self._bare_small("bare", count, create=False),
            },
        )
        bench.restore("empty")

    def loads(self) -> None:
        """Create as many tables at once as `few` names."""
        self.bench.save("empty")
        self._create("loaded", self.sizes.names)
        self.bench.restore("empty")

    def _create(self, name: str, count: int) -> SmallTables:
        """Measure the first merge of tables; their manifest is the state `staged`."""
        bench = self.bench
        many = SmallTables(bench.store, "many", count)
        many.source.commit()
        bench.save("staged")
        ways: dict[str, Callable[[], object]] = {
            "ours": partial(bench.merge, "many"),
            "bare": partial(self._bare_small, "bare", count, create=True),
        }
        self._rounds(name, "staged", ways)
        return many

    def few(self) -> None:
        """Change ten tables of many, and ten of ten; then merge once more.

        Of the many only these ten are in the lake: a merge does not look at the others.
        """
        bench = self.bench
        ways: dict[str, Callable[[], object]] = {}
        for source, count in (("many", self.sizes.names), ("alone", CHANGED)):
            tables = SmallTables(bench.store, source, count)
            tables.source.commit()
            ways[source] = partial(bench.merge, source, tables=[f"{source}.t000?"])
            ways[source]()
            tables.change(tables.tables[:CHANGED], 1)
        bench.save("few")
        self._rounds("few", "few", ways)
        bench.restore("few")
        for merge in ways.values():
            merge()
        bench.save("idle")
        self._rounds("idle", "idle", ways)

    def _bare_small(self, database: str, count: int, *, create: bool) -> None:
        """Merge literal rows into tables of two rows, as plainly as the format can."""
        lake, spark = self.bench.lake, self.spark

        def merge(number: int) -> None:
            session = spark.newSession()
            session.conf.set("spark.databricks.delta.snapshotPartitions", "1")
            session.conf.set("spark.sql.shuffle.partitions", "1")
            target = lake.target(database, f"t{number:04}")
            columns = {
                "id": "bigint",
                "quantity": "int",
                "name": "string",
                "mail": "string",
                "amount": "decimal(12,2)",
                "level": "int",
                "changed": "timestamp_ntz",
                "seen": "timestamp",
            }
            if create:
                make_empty(session, lake, target, columns, {})
            first = 1 if create else 2
            rows = ", ".join(
                f"(CAST({key} AS bigint), {key}, 'one', 'one@example.com', CAST(NULL AS"
                " decimal(12,2)), CAST(NULL AS int), CAST(NULL AS timestamp_ntz),"
                " CAST(NULL AS timestamp), false)"
                for key in (first, first + 1)
            )
            names = ", ".join(f"c{index}" for index in range(len(columns)))
            session.sql(
                f"CREATE TEMP VIEW {merge_sql.CHANGES} AS SELECT * FROM VALUES {rows}"
                f" AS v({names}, {DELETED})"
            )
            statement = merge_sql.merge(target, columns=list(columns), key=[0], nullable=False)
            session.sql(statement).collect()

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(merge, range(count)))

    # Many manifests.

    def manifests(self) -> None:
        """Merge the same changes from many manifests, from a quarter as many, and from one."""
        bench, count = self.bench, self.sizes.manifests
        bench.save("empty")
        ways: dict[str, Callable[[], object]] = {}
        for source, share in (("week", 1), ("days", 4), ("once", count)):
            tables = SmallTables(bench.store, source, 20)
            tables.source.commit()
            bench.merge(source)
            for number in range(count):
                for table in tables.tables[number % 5 :: 5]:
                    table.update(1, quantity=number)
                    table.insert(id=10 + number, name="more")
                if (number + 1) % share == 0:
                    tables.source.commit()
            ways[f"{source} ({count // share} manifests)"] = partial(bench.merge, source)
        bench.save("many")
        self._rounds("manifests", "many", ways)
        bench.restore("empty")


def main(arguments: dict[str, Any]) -> int:
    """Measure; the last line on standard output is the result."""
    folder = Path(arguments["folder"])
    folder.mkdir(parents=True)
    spark = start_spark(arguments["format"], folder, memory=arguments["memory"])
    try:
        bench = BenchLake(spark, arguments["format"], folder)
        sizes = Sizes(**arguments["sizes"])
        print(json.dumps(Measurement(bench, sizes).run(arguments["parts"])))
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
