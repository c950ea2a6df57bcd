"""A reload that a person approves: rows that somebody wrote to a lake table are replaced.

It triggers the DAG of `binlog_to_lake.py`, which reads the tables from the server. The request is
in Airflow's UI, under Required Actions.
"""

from __future__ import annotations

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, Param

with DAG(
    "binlog_reload",
    schedule=None,
    params={"reload": Param(["shop.orders"], type="array", items={"type": "string"})},
    render_template_as_native_obj=True,  # the conf needs a list, not its text
):
    approve = ApprovalOperator(
        task_id="approve",
        subject="Reload {{ params.reload | join(', ') }}?",
        body="All rows of these lake tables are replaced by those of the server.",
    )
    approve >> TriggerDagRunOperator(
        task_id="reload", trigger_dag_id="binlog_to_lake", conf={"reload": "{{ params.reload }}"}
    )
