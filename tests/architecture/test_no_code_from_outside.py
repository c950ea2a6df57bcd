"""Nothing that a server, a store or a user sends is ever executed, or unpickled."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import airflow_provider_binlog

PACKAGE = Path(airflow_provider_binlog.__file__).parent
ROOT = PACKAGE.parent

MODULES = {"code", "ctypes", "dill", "cloudpickle", "marshal", "pickle", "pty", "runpy", "shelve"}
MODULES |= {"subprocess", "yaml", "xml", "joblib", "commands"}
CALLS = {"eval", "exec", "compile", "__import__", "input"}
ATTRIBUTES = {
    *("system", "popen", "spawnl", "spawnv", "spawnve", "execv", "execve", "execvp", "startfile"),
    *("fork", "forkpty", "posix_spawn", "extractall", "load_module", "exec_module"),
}
ARGUMENTS = {"shell", "allow_pickle"}
IMPORTING = {"__init__.py", "cli/commands.py"}
"""Modules that import others by names from a table of their own."""
EXEMPT = {"cli/output.py": ["yaml"], "cli/sync.py": ["subprocess"]}
"""Modules that write YAML, and start Spark with arguments of their own and no shell."""


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _wrong(tree: ast.AST) -> list[str]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = {each.name.partition(".")[0] for each in node.names}
            found += sorted(names & MODULES)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found += sorted({(node.module or "").partition(".")[0]} & MODULES)
        elif isinstance(node, ast.Call):
            name = _name(node.func)
            if name in (CALLS if isinstance(node.func, ast.Name) else ATTRIBUTES):
                found.append(name)
            found += sorted({each.arg or "" for each in node.keywords} & ARGUMENTS)
            found += ["import_module"] if name == "import_module" else []
    return found


def test_nothing_is_evaluated_unpickled_or_run_in_a_shell() -> None:
    found = {
        str(file.relative_to(PACKAGE)): wrong
        for file in sorted(PACKAGE.rglob("*.py"))
        if (wrong := _wrong(ast.parse(file.read_text())))
    }

    assert found == {each: ["import_module"] for each in IMPORTING} | EXEMPT
    assert "yaml.safe_dump" in (PACKAGE / "cli/output.py").read_text()


@pytest.mark.parametrize(
    "code",
    [
        *("import pickle", "from pickle import loads", "import a, subprocess as s", "eval('1')"),
        *("os.system('ls')", "run(x, shell=True)", "np.load(f, allow_pickle=True)"),
        *("importlib.import_module(name)", "__import__(name)", "tar.extractall()"),
    ],
)
def test_what_is_looked_for_is_found(code: str) -> None:
    assert _wrong(ast.parse(code))


def _versions(file: str) -> set[tuple[str, str]]:
    text = (ROOT / "tests" / file).read_text()
    return set(re.findall(r"^([\w.-]+)==([^\s;\\]+)", text, re.MULTILINE))


def test_every_version_that_tests_install_has_its_hashes() -> None:
    locked = re.split(r"\n(?=\S)", (ROOT / "tests" / "hashes.txt").read_text())
    named = {match[1] for each in locked if (match := re.match(r"([\w.-]+)==", each))}

    assert _versions("constraints.txt") - _versions("hashes.txt") <= {
        # Nothing that is installed needs it.
        each
        for each in _versions("constraints.txt")
        if each[0] not in named
    }
    for each in locked:
        assert each.startswith("#") or re.search(r"--hash=sha256:[0-9a-f]{64}$", each), each
    assert len(named) > 200
