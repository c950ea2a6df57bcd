"""The sections of the docs on errors, as HTML: the package brings the page of troubleshooting."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markupsafe import Markup

_PAGE = "troubleshooting.md"
_HERE = Path(__file__).parent
_SECTION = re.compile(r"^## (\w+)$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\(([^)#]*)(#?[^)]*)\)")


@cache
def read_sections() -> dict[str, Markup]:
    """Return the section of each class of errors."""
    path = _HERE / _PAGE
    if not path.exists():  # In a checkout.
        path = _HERE.parents[1] / "docs" / _PAGE
    _, *parts = _SECTION.split(path.read_text(encoding="utf-8"))
    names = parts[::2]
    by_anchor = {f"#{name.lower()}": name for name in names}

    def link(found: re.Match[str]) -> str:
        text, page, anchor = found.groups()
        if page.startswith("https:"):
            return found[0]
        if not page and anchor in by_anchor:
            name = by_anchor[anchor]
            return f"[{text or name}](error?name={name})"
        # The other pages are not here.
        return f"{text} (docs/{page}{anchor})".lstrip() if page else text

    markdown = MarkdownIt("commonmark", {"html": False})
    return {
        name: Markup(markdown.render(_LINK.sub(link, text)))  # noqa: S704  No HTML is in it.
        for name, text in zip(names, parts[1::2], strict=True)
    }


def find_section(error: BaseException | None) -> str:
    """Return the name of the section of an error; empty if there is none."""
    name = type(error).__name__
    return name if name in read_sections() else ""
