"""A backlog: one range in sub-ranges, which tasks stage at the same time.

`sub_ranges.py` reads the range once, without decoding its rows, to plan the sub-ranges, and stages
one sub-range; `joining.py` makes one manifest of all.
"""

from airflow_provider_binlog.capture.backlog.joining import commit_backlog
from airflow_provider_binlog.capture.backlog.plan import BacklogPlan, load_plan, store_plan
from airflow_provider_binlog.capture.backlog.sub_ranges import plan_backlog, stage_sub_range

__all__ = [
    "BacklogPlan",
    "commit_backlog",
    "load_plan",
    "plan_backlog",
    "stage_sub_range",
    "store_plan",
]
