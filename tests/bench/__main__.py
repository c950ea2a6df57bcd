"""`python -m tests.bench [readers | merge | postgresql | snapshots | chart]`; all without one."""

from __future__ import annotations

import sys


def main(arguments: list[str]) -> int:
    """Run the parts that are asked for; return the exit code."""
    part, *rest = arguments or ["readers"]
    if part == "readers":
        from tests.bench.readers import main as measure_readers

        code = measure_readers(rest)
        if arguments or code:
            return code
    if part == "chart" or not arguments:
        from tests.bench.chart import main as draw_chart

        code = draw_chart(rest)
        if arguments or code:
            return code
    if part == "snapshots" or not arguments:
        from tests.bench.snapshots import main as measure_snapshots

        code = measure_snapshots(rest)
        if arguments or code:
            return code
    if part == "postgresql" or not arguments:
        from tests.bench.postgresql import main as measure_postgresql

        code = measure_postgresql(rest)
        if arguments or code:
            return code
    from tests.bench.merge import main as measure_merge

    return measure_merge(rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
