"""A message about tables that are not live, after a merge that succeeded all the same."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseNotifier, Context

from airflow_provider_binlog.operators.merge_report import list_held


class BinlogNotLiveNotifier(BaseNotifier):
    """Send a message by another notifier if a merge has left tables that are not live.

    .. code-block:: python

        message = SlackNotifier(text="{{ not_live }}", channel="data")
        merge = {"on_success_callback": BinlogNotLiveNotifier(message)}

    The templates of the other notifier have ``not_live``, a line for each table: its state, since
    when, where in the log, and why.

    :param notifier: The notifier that sends the message.
    """

    def __init__(self, notifier: BaseNotifier, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.notifier = notifier

    def notify(self, context: Context) -> None:
        """Send the message; does nothing if all tables are live."""
        instance = context["ti"]
        report = instance.xcom_pull(task_ids=instance.task_id, map_indexes=instance.map_index)
        if report and (not_live := "\n".join(list_held(report))):
            extended: Any = {**context, "not_live": not_live}
            self.notifier(extended)
