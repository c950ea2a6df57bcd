"""Build hook of hatchling: the README of the package."""

# ruff: noqa: INP001  A folder of pages is no package.

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class ReadmeHook(MetadataHookInterface):
    """README.md, with the paths of its relative links in place of the links."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the README to the metadata of the project."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        text = re.sub(r"\[([^\]]+)\]\((?!https?:)([^)]+)\)", r"\1 (`\2`)", text)
        download = (
            "pip download --no-deps --no-binary airflow-provider-binlog airflow-provider-binlog"
        )
        sources = f"Paths on this page are those of the source distribution (`{download}`)"
        text = re.sub(r"The pages are in the folder `docs`.*:", f"{sources}:", text)
        text = text.replace("'.[", "'airflow-provider-binlog[")
        text = re.sub(r" +# (in|from) a checkout(; .*)?$", "", text, flags=re.MULTILINE)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
