"""Measure: `python -m tests.bench [PART]`, all parts without one."""

from __future__ import annotations

import sys
from importlib import import_module

PARTS = (
    "readers",
    "snapshots",
    "postgresql",
    "freshness",
    "scheduled",
    "merge",
    "pipelines",
    "chart",
)


def main(arguments: list[str]) -> int:
    """Run the parts that are asked for; return the exit code of the first that fails."""
    if arguments and arguments[0] not in PARTS:
        print(f"a part is one of {', '.join(PARTS)}", file=sys.stderr)
        return 2
    for part in arguments[:1] or PARTS:
        # Each with what it alone needs.
        if code := import_module(f"tests.bench.{part}").main(arguments[1:]):
            return int(code)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
