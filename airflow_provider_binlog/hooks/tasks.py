"""Runs of tasks, their template fields, checkpoints in Variables, and how a task fails."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias, BaseOperator, Context, Variable, conf, timezone
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_binlog import errors
from airflow_provider_binlog.checkpoint import repair_command
from airflow_provider_binlog.position import FIRST_OFFSET, Position, split_file_name
from airflow_provider_binlog.sources.binlog_source import BinlogSource
from airflow_provider_binlog.table_options import TableOptions

if TYPE_CHECKING:
    import jinja2


def name_run(context: Context) -> str:
    """Return `dag_id run_id task_id`, as manifests and checkpoints note it."""
    # No logical date: it may be missing.
    instance = context["ti"]
    return f"{instance.dag_id} {instance.run_id} {instance.task_id}"


def read_run(name: str) -> tuple[str, str, str] | None:
    """Return what `name_run` joined; None if a person, or a tool, is named."""
    parts = name.split(" ")
    is_person = len(parts) != 3 or parts[1:] == ["by", "hand"]
    return None if is_person else (parts[0], parts[1], parts[2])


def read_dag(name: str) -> str:
    """Return the DAG in what `name_run` joined; empty if a person, or a tool, is named."""
    run = read_run(name)
    return run[0] if run else ""


def seconds_to_follow(context: Context, follow: object) -> float:
    """Return how long a task follows what grows: a retry for the rest, since its first try."""
    if follow is None:
        return 0.0
    if not isinstance(follow, timedelta) or follow <= timedelta():
        raise errors.ConfigurationError("follow is a positive timedelta", given=follow)
    # By the run's start: what is stored outlives a run that ended, and is cleared to run again.
    key = f"binlog_follow {context['dag_run'].start_date}"
    store, now = context["task_state_store"], timezone.utcnow()
    began = store.get(key)
    if began is None:
        store.set(key, now.isoformat())
        return follow.total_seconds()
    left = follow - (now - datetime.fromisoformat(str(began)))
    return max(0.0, left.total_seconds())


def max_map_length() -> int:
    """Return `[core] max_map_length`: a task that returns more values to be mapped fails."""
    return int(conf.getint("core", "max_map_length", fallback=1024))


def pass_to_outlets(task: BaseOperator, context: Context, extra: Mapping[str, Any]) -> None:
    """Store what a person or a DAG may want to know in the event of each asset of the outlets."""
    for outlet in task.outlets:
        if isinstance(outlet, Asset):
            context["outlet_events"][outlet].extra = dict(extra)


def show_position(position: Mapping[str, Any]) -> str:
    """Return a position in JSON as a text, without its GTIDs, which may be long."""
    return f"{position['file']}:{position['offset']}"


def add_to_aliases(
    task: BaseOperator, context: Context, extras: Mapping[str, Mapping[str, Any]]
) -> None:
    """Add an event of an asset for each of some lake tables to every alias of the outlets.

    `extras` is by the tables' names in SQL: the URI of a folder of Delta, another table's name.
    """
    for outlet in task.outlets:
        if isinstance(outlet, AssetAlias):
            for target, extra in extras.items():
                context["outlet_events"][outlet].add(lake_asset(target), extra=dict(extra))


def lake_asset(target: str) -> Asset:
    """Return the asset of a lake table that SQL names so.

    Its URI is the folder of a Delta table, else the name: `s3://lake/tables/shop/orders`,
    `lake.shop.orders`.
    """
    return Asset(locate_target(target))


def locate_target(target: str) -> str:
    """Return the URI of the folder of a Delta table that SQL names so; of others the plain name."""
    folder = re.fullmatch(r"delta\.`(.*)`", target)
    return target.replace("`", "") if folder is None else common_location(folder[1])


def common_location(location: str) -> str:
    """Return the name by which others than Spark know a location of `spark_location`."""
    return re.sub("^s3a:", "s3:", location)


if TYPE_CHECKING:
    _Base = BaseOperator
else:
    _Base = object


class RendersObjects(_Base):
    """Base of tasks with a `BinlogSource` or `TableOptions` in template fields.

    It precedes Airflow's own base class, which renders texts, lists and mappings by itself, and
    assigns to the fields of other objects, which these refuse: they are frozen.
    """

    def render_template(
        self,
        content: Any,
        context: Context,
        jinja_env: jinja2.Environment | None = None,
        seen_oids: set[int] | None = None,
    ) -> Any:
        """Return the content with all texts in it rendered."""

        def render(value: Any) -> Any:
            return super(RendersObjects, self).render_template(value, context, jinja_env, seen_oids)

        if isinstance(content, TableOptions):
            return TableOptions(**render(content.given))
        return content.render(render) if isinstance(content, BinlogSource) else render(content)


VARIABLE_DESCRIPTION = (
    "How far the changes of a binary log are staged. Written by airflow-provider-binlog."
)


class AirflowVariableStore:
    """Store of checkpoints, a Variable for each; for tasks and triggers."""

    def get(self, key: str) -> str | None:
        """Return the stored value, or None; AirflowRuntimeError if Airflow does not say."""
        value = Variable.get(key, default=None)
        # Airflow also returns the default where its API server did not answer.
        if value is None and key in Variable.keys(prefix=key):
            value = Variable.get(key)
        return None if value is None else str(value)

    def set(self, key: str, value: str) -> None:
        """Store `value`."""
        Variable.set(key, value, description=VARIABLE_DESCRIPTION)


_LOAD = (
    "and load its tables from snapshots; into the same lake with adopt=True of the merge, until "
    "all of its tables are loaded"
)

_OF_ONE_EVENT = frozenset({"log_pos", "offset"})
_OF_TABLES_OR_ALL_EVENTS = frozenset(
    {"table", "tables", "column", "version", "server", "needed_field", "compression"}
)
"""Context of errors that a start after the event does not mend: of a table, or of what the server
logs with every event."""


@contextmanager
def naming_repairs(source: BinlogSource, staging_path: str | None = None) -> Iterator[None]:
    """Add the repair of a source to the context of its errors."""
    try:
        with naming_repair_command(source.name, staging_path):
            yield
    except errors.PositionPurgedError as error:
        again = _name_again(source, "earliest")
        error.context["repair"] = f"capture what is left as {again}, {_LOAD}"
        raise
    except errors.ForeignPositionError as error:
        again = _name_again(source, "earliest")
        error.context["repair"] = (
            "connect to the server and the log of the position; if that log was reset, renamed or "
            f"lost, capture the one that is there as {again}, {_LOAD}"
        )
        raise
    except errors.FormatError as error:
        if (file := error.context.get("file")) is not None:
            error.context["repair"] = _restore(source, str(file))
        raise
    except errors.UnsupportedError as error:
        names = error.context.keys()
        if names & _OF_ONE_EVENT and not names & _OF_TABLES_OR_ALL_EVENTS:
            # The event stays in the log, whatever is corrected on the server.
            again = _name_again(source, "now")
            error.context["repair"] = f"to continue after it, capture as {again}, {_LOAD}"
        raise


def _name_again(source: BinlogSource, start: str) -> str:
    """Return the source under another name, as a DAG's author writes it."""
    where = f"files={source.files!r}" if source.files is not None else ""
    where = where or f'conn_id="{source.conn_id}"'
    return f'BinlogSource("{source.name}_2", {where}, start="{start}")'


def _restore(source: BinlogSource, file: str) -> str:
    """Return how to continue after a damaged file of the log."""
    following = "FILE"
    with suppress(errors.FormatError):
        log, number = split_file_name(file)
        following = f"{log}.{number + 1:0{len(file) - len(log) - 1}}"
    again = _name_again(source, str(Position(following, FIRST_OFFSET)))
    return (
        f"restore {file} from a copy, such as one of the archive; if there is none, capture what "
        f"follows it as {again}, once that file begins (FLUSH BINARY LOGS), {_LOAD}"
    )


@contextmanager
def naming_repair_command(source: str, staging_path: str | None) -> Iterator[None]:
    """Complete the command that repairs a checkpoint with the staging path, if there is one."""
    try:
        yield
    except errors.CheckpointError as error:
        if staging_path is not None and "repair" in error.context:
            error.context["repair"] = repair_command(source, staging_path)
        raise


_FAILED: list[str] = []


def failed_with() -> str:
    """Return the class of the error that ended the task of this process; empty if none did."""
    return "".join(_FAILED)


@contextmanager
def fail_unless_retryable() -> Iterator[None]:
    """Turn an error that is not retryable into Airflow's "fail, do not retry".

    The one place that reads `retryable`. It notes the error's class for `failed_with`.
    """
    _FAILED.clear()
    try:
        yield
    except MemoryError as error:
        _FAILED.append(errors.MemoryExhaustedError.__name__)
        raise errors.MemoryExhaustedError(
            "the task got no more memory: give it more, or lower limits=Limits(...)",
            reason=str(error),
        ) from error
    except errors.BinlogError as error:
        _FAILED.append(type(error).__name__)
        # The text says what happened and what to change: the log has it first, and one traceback.
        error.name_section()
        if error.retryable:
            raise error from None
        failure = AirflowFailException(f"{type(error).__name__}: {error}")
        # What breaks the format may be a bug: where it was found is worth a look.
        found = error.__traceback__ if isinstance(error, errors.FormatError) else None
        raise failure.with_traceback(found) from None
