"""How Sphinx builds these pages: `make docs`."""

# ruff: noqa: INP001  A folder of pages is no package.

import logging
import os
from importlib import metadata
from pathlib import Path

# The reference imports Airflow, which would else make a home in that of the user.
os.environ.setdefault("AIRFLOW_HOME", str(Path(__file__).parents[1] / ".run" / "docs"))
logging.getLogger("airflow").setLevel(logging.ERROR)

project = "airflow_provider_binlog"
author = "The authors of airflow_provider_binlog"
project_copyright = author
version = release = metadata.version("airflow-provider-binlog")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
# Annotations are in the signatures; docstrings write code in single backticks.
autodoc_typehints = "none"
default_role = "code"
myst_heading_anchors = 2
exclude_patterns = ["_build", "changes"]

html_theme = "furo"
html_title = f"{project} {release}"
html_static_path = ["_static"]
html_show_sphinx = False
