"""Values as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_STEPS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def show_number(value: float) -> str:
    """Return `1,234,567`."""
    return f"{value:,}"


def show_count(count: int, noun: str) -> str:
    """Return `1 table` or `2 tables`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def show_duration(span: timedelta | float) -> str:
    """Return the two largest units: `2 h 5 min`; `0.4 s` below ten seconds."""
    seconds = span.total_seconds() if isinstance(span, timedelta) else span
    if seconds < 0:
        return f"-{show_duration(-seconds)}"
    if seconds < 10:
        return f"{seconds:.1f} s".replace(".0 ", " ")
    rest, parts = round(seconds), []
    for size, unit in _STEPS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {unit}")
        elif parts:
            break
    return " ".join(parts[:2])


def show_time(time: datetime) -> str:
    """Return `2026-11-24 19:12:46 UTC`."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def show_ago(time: datetime, now: datetime) -> str:
    """Return `5 min ago`."""
    seconds = round((now - time).total_seconds())
    if seconds < 1:
        return "now"
    size, unit = next((size, unit) for size, unit in _STEPS if seconds >= size)
    return f"{seconds // size} {unit} ago"
