"""How Sphinx builds these pages: `make docs`."""

# ruff: noqa: INP001  A folder of pages is no package.

from importlib import metadata

project = "airflow_provider_binlog"
author = "The authors of airflow_provider_binlog"
project_copyright = author
version = release = metadata.version("airflow-provider-binlog")

extensions = ["myst_parser"]
myst_heading_anchors = 2
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = f"{project} {release}"
html_static_path = ["_static"]
html_show_sphinx = False
