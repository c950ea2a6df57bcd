"""Who ran a command is known without a name, too."""

from __future__ import annotations

import getpass
import os

import pytest

from airflow_provider_binlog.cli.source import name_person


def test_an_account_without_a_name_is_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose user is drawn by the cluster."""

    def unknown() -> str:
        raise KeyError("getpwuid(): uid not found: 1000650000")

    assert name_person() == f"{getpass.getuser()} by hand"
    monkeypatch.setattr(getpass, "getuser", unknown)
    assert name_person() == f"uid {os.getuid()} by hand"
