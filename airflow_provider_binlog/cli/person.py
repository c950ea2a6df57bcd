"""Who ran a command: noted in what it saves."""

from __future__ import annotations

import getpass
import os


def name_person() -> str:
    """Return the account's name, or its number: containers may run under one without a name."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = f"uid {os.getuid()}"
    return f"{name} by hand"
