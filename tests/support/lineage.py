"""Events that Airflow sent to OpenLineage, in a file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Dataset: TypeAlias = tuple[str, str]
"""Namespace and name."""


def file_transport(path: Path) -> str:
    """Return the value of `[openlineage] transport` that appends events to a file."""
    return json.dumps({"type": "file", "log_file_path": str(path), "append": True})


def read_ends(path: Path) -> dict[str, set[str]]:
    """Return the columns of each table that was read, and check their way to some lake table.

    By name of the lake table that lies at the end of the way. Each column of what is staged comes
    from the column of this name.
    """
    leads: dict[Dataset, set[Dataset]] = {}
    columns: dict[Dataset, set[str]] = {}
    for task, inputs, outputs in read_tasks(path):
        for source in inputs:
            if source[0].startswith("mysql://"):
                columns.setdefault(source, set()).update(inputs[source])
        for output, origins in outputs.items():
            between = ("/", ".") if task == "merge" else (".", "/")
            ours = [
                one
                for one in inputs
                if one[1].split(between[0])[-1] == output[1].split(between[1])[-1]
            ]
            assert ours, output
            assert inputs[ours[0]]
            assert origins == {name: (*ours[0], name) for name in inputs[ours[0]]}
            for one in ours:
                leads.setdefault(one, set()).add(output)
    ends = {}
    for source, names in columns.items():
        (staged,) = leads[source]
        (lake,) = leads[staged]
        ends[lake[1]] = names
    return ends


def read_tasks(
    path: Path,
) -> Iterator[tuple[str, dict[Dataset, list[str]], dict[Dataset, dict[str, tuple[str, ...]]]]]:
    """Yield each task, columns of what it read, and origins of the columns that it wrote."""
    for line in path.read_text().splitlines():
        event = json.loads(line)
        if event["eventType"] != "COMPLETE":
            continue
        inputs = {
            (one["namespace"], one["name"]): [
                column["name"] for column in one["facets"].get("schema", {}).get("fields", ())
            ]
            for one in event["inputs"]
        }
        outputs: dict[Dataset, dict[str, tuple[str, ...]]] = {}
        for one in event["outputs"]:
            assert one["outputFacets"]["outputStatistics"]["rowCount"] > 0
            fields = one["facets"].get("columnLineage", {}).get("fields", {})
            outputs[one["namespace"], one["name"]] = {
                name: (origin["namespace"], origin["name"], origin["field"])
                for name, field in fields.items()
                for origin in field["inputFields"]
            }
        yield event["job"]["name"].rpartition(".")[2], inputs, outputs
