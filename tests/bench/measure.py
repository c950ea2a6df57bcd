"""One measurement in a process of its own: `python -m tests.bench.measure NAME '{"arguments": …}'`.

Prints a JSON object: seconds by the clock and of the processor, row images, and the peak of
resident memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Result = dict[str, float]


def file_to_arrow(*, folder: str, file: str, size: int, **_: Any) -> Result:
    """Decode a file into staged columns, CRC32s verified, up to where Parquet would be written.

    A first pass is not counted: memory is then known to the process, as in a longer log.
    """
    from airflow_provider_binlog.staging import part_writer
    from airflow_provider_binlog.staging.part_writer import WrittenPart
    from airflow_provider_binlog.transport.files.reader import FileBlockStream

    def not_written(*_: Any) -> WrittenPart:
        return WrittenPart(0, "")

    part_writer.__dict__.update(
        {"encode_part": lambda *_: b"", "store_part": not_written, "write_part": not_written}
    )
    source = FileBlockStream([Path(folder, file)])
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        _capture(source, file=file, size=size, staging=first)
        return _capture(source, file=file, size=size, staging=second)


def file_to_parquet(*, folder: str, file: str, size: int, **_: Any) -> Result:
    """Stage a file on the local disk."""
    from airflow_provider_binlog.transport.files.reader import FileBlockStream

    with tempfile.TemporaryDirectory() as staging:
        source = FileBlockStream([Path(folder, file)])
        return _capture(source, file=file, size=size, staging=staging)


def first_part(*, port: int, file: str, size: int, **_: Any) -> Result:
    """Stage a short range of a server's log, from our first import to its only part.

    What the task's runner has loaded by then is Airflow's.
    """
    import airflow.sdk

    began, busy = time.perf_counter(), time.process_time()
    from airflow_provider_binlog.operators.extract import BinlogExtractOperator
    from airflow_provider_binlog.sources.server_log import ServerLog
    from airflow_provider_binlog.sources.settings import ConnectionSettings

    if not issubclass(BinlogExtractOperator, airflow.sdk.BaseOperator):
        raise TypeError
    log = ServerLog(ConnectionSettings("127.0.0.1", port, "root", ssl_mode="disabled"))
    log.check()
    with tempfile.TemporaryDirectory() as staging:
        captured = _capture(log, file=file, size=size, staging=staging)
    seconds, cpu = time.perf_counter() - began, time.process_time() - busy
    return captured | {"seconds": seconds, "cpu": cpu}


def server_to_parquet(*, port: int, file: str, size: int, **_: Any) -> Result:
    """Stage a file of a server's log on the local disk."""
    import pymysql

    from airflow_provider_binlog.position import Flavor
    from airflow_provider_binlog.transport.stream.live import ServerBlockStream

    source = ServerBlockStream(
        lambda: pymysql.connect(host="127.0.0.1", port=port, user="root", ssl_disabled=True),
        flavor=Flavor.MYSQL,
    )
    with tempfile.TemporaryDirectory() as staging:
        return _capture(source, file=file, size=size, staging=staging)


def table_to_parquet(*, port: int, database: str, table: str, **_: Any) -> Result:
    """Stage a snapshot of a table of a server on the local disk."""
    from airflow_provider_binlog.snapshot.chunk import ChunkReader
    from airflow_provider_binlog.snapshot.plan import SnapshotFiles, SnapshotRequest
    from airflow_provider_binlog.snapshot.take import begin_snapshot, complete_snapshot, read_chunks
    from airflow_provider_binlog.sources.settings import ConnectionSettings
    from tests.support.stores import open_store

    settings = ConnectionSettings("127.0.0.1", port, "root", ssl_mode="disabled")
    began, busy = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as staging:
        store = open_store(f"file://{staging}")
        request = SnapshotRequest(source_name="bench", name=(database, table), created_by="bench")
        plan = begin_snapshot(request, settings.connect, store)
        files = SnapshotFiles(store, "bench")
        read_chunks(plan, range(plan.chunk_count), ChunkReader(settings.connect, files))
        rows = complete_snapshot(plan, files).rows
        seconds, cpu = time.perf_counter() - began, time.process_time() - busy
        staged = sum(path.stat().st_size for path in Path(staging).rglob("*.parquet"))
    return {"seconds": seconds, "cpu": cpu, "images": rows, "staged": staged}


def _capture(source: Any, *, file: str, size: int, staging: str) -> Result:
    from airflow_provider_binlog.capture.extract import extract
    from airflow_provider_binlog.capture.log_range import ExtractRequest, TableFilter
    from airflow_provider_binlog.changes import BeforeImages
    from airflow_provider_binlog.position import FIRST_OFFSET, Flavor, Position, SourceIdentity
    from tests.support.stores import open_store

    store = open_store(f"file://{staging}")
    began, busy = time.perf_counter(), time.process_time()
    extracted = extract(
        ExtractRequest(
            identity=SourceIdentity(Flavor.MYSQL, "bench", "binlog"),
            start=Position(file, FIRST_OFFSET),
            sequence=1,
            stop=Position(file, size),
            tables=TableFilter(["bench.*"]),
            source_name="bench",
            # Both images of an update, as the peer gives them.
            before_images=BeforeImages.ALL,
            created_by="bench",
        ),
        source,
        store,
    )
    seconds, cpu = time.perf_counter() - began, time.process_time() - busy
    images = sum(manifest.rows for manifest in extracted.manifests)
    staged = sum(path.stat().st_size for path in Path(staging).rglob("*.parquet"))
    return {"seconds": seconds, "cpu": cpu, "images": images, "staged": staged}


def mysql_replication(*, port: int, file: str, images: int, **_: Any) -> Result:
    """Read the first rows of a server's log with mysql-replication, which verifies no checksums.

    The clock starts with the first rows event: connecting costs it nothing here.
    """
    from pymysqlreplication import BinLogStreamReader
    from pymysqlreplication.row_event import UpdateRowsEvent, WriteRowsEvent

    stream = BinLogStreamReader(
        connection_settings={"host": "127.0.0.1", "port": port, "user": "root", "passwd": ""},
        server_id=4_000_000_000,
        resume_stream=True,
        log_file=file,
        log_pos=4,
        only_events=[WriteRowsEvent, UpdateRowsEvent],
    )
    began, busy, found = 0.0, 0.0, 0
    for event in stream:
        if not found:
            began, busy = time.perf_counter(), time.process_time()
        for row in event.rows:
            found += 2 if "before_values" in row else 1
        if found >= images:
            break
    seconds, cpu = time.perf_counter() - began, time.process_time() - busy
    stream.close()
    return {"seconds": seconds, "cpu": cpu, "images": found}


def received(*, port: int, file: str, size: int, **_: Any) -> Result:
    """Receive a file of a server's log, and look at none of it."""
    import pymysql

    from airflow_provider_binlog.position import FIRST_OFFSET, Flavor, Position
    from airflow_provider_binlog.transport.server import driver
    from airflow_provider_binlog.transport.stream.commands import binlog_dump, dump_flags
    from airflow_provider_binlog.transport.stream.live import ServerBlockStream

    source = ServerBlockStream(
        lambda: pymysql.connect(host="127.0.0.1", port=port, user="root", ssl_disabled=True),
        flavor=Flavor.MYSQL,
    )
    with source._connection() as connection:
        server_id, flags = source._prepare(connection), dump_flags(Flavor.MYSQL)
        request = binlog_dump(Position(file, FIRST_OFFSET), server_id=server_id, flags=flags)
        began, busy = time.perf_counter(), time.process_time()
        driver.send_command(connection, request)
        raw: Any = connection.__dict__["_sock"]
        buffer, left = memoryview(bytearray(1 << 20)), size
        while left > 0:
            left -= raw.recv_into(buffer)
        seconds, cpu = time.perf_counter() - began, time.process_time() - busy
    return {"seconds": seconds, "cpu": cpu, "images": 0}


def mysqlbinlog(*, port: int, file: str, size: int, program: list[str], **_: Any) -> Result:
    """Copy a file of a server's log as it is."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        command = [*program, "--read-from-remote-server", "--raw", f"--result-file={folder}/"]
        address = ["--host=127.0.0.1", f"--port={port}", "--user=root", file]
        process = subprocess.Popen([*command, *address])
        _pid, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        copied = Path(folder, file).stat().st_size
    if status or copied != size:
        sys.exit(f"mysqlbinlog: status {status}, {copied} of {size} bytes")
    cpu = usage.ru_utime + usage.ru_stime
    return {"seconds": seconds, "cpu": cpu, "images": 0, "peak_bytes": usage.ru_maxrss * 1024}


MEASURES: dict[str, Callable[..., Result]] = {
    each.__name__: each
    for each in (
        file_to_arrow,
        file_to_parquet,
        first_part,
        server_to_parquet,
        table_to_parquet,
        mysql_replication,
        mysqlbinlog,
        received,
    )
}


def peak_bytes() -> int:
    """Return this process's peak of resident memory; `getrusage` would count its parent's too."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line) * 1024


if __name__ == "__main__":
    measured = MEASURES[sys.argv[1]](**json.loads(sys.argv[2]))
    print(json.dumps({"peak_bytes": peak_bytes()} | measured))
