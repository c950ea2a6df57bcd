"""A backlog: one range in sub-ranges, which tasks stage at the same time.

`planning.py` reads the range once, without decoding its rows, for what every sub-range starts with;
`sub_range.py` stages one of them; `joining.py` makes one manifest of all.
"""

from airflow_provider_binlog.capture.backlog.joining import commit_backlog
from airflow_provider_binlog.capture.backlog.plan import BacklogPlan, load_plan, store_plan
from airflow_provider_binlog.capture.backlog.planning import plan_backlog
from airflow_provider_binlog.capture.backlog.sub_range import stage_sub_range

__all__ = [
    "BacklogPlan",
    "commit_backlog",
    "load_plan",
    "plan_backlog",
    "stage_sub_range",
    "store_plan",
]
