"""Kill a merge before one of its writes, in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

WRITES = ("ALTER", "COMMENT", "COMMIT", "CREATE", "DELETE", "INSERT", "MERGE", "UPDATE")


class Killed(BaseException):
    """The process ends here."""


class Writes:
    """Counts down the writes that a merge may do before it is killed."""

    def __init__(self) -> None:
        self.left = 0

    def before(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that is one write."""

        def write(*arguments: Any, **options: Any) -> Any:
            if self.left == 0:
                raise Killed
            self.left -= 1
            return run(*arguments, **options)

        return write

    def statements(self, sql: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that runs statements, some of which are writes."""
        write = self.before(sql)

        def run(session: Any, statement: str, *rest: Any) -> Any:
            return (write if statement.startswith(WRITES) else sql)(session, statement, *rest)

        return run
