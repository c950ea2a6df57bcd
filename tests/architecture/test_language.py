"""The code and the pages use the terms of docs/terms.md, and none of those that they replace."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TERMS_PAGE = "docs/terms.md"

SUFFIXES = {"", ".md", ".py", ".sh", ".sql", ".svg", ".toml"}
FOLDERS = [".ci", "airflow_provider_binlog", "dags", "docs", "tests"]
PAGES = ["CHANGELOG.md", "CONTRIBUTING.md", "Makefile", "README.md", "pyproject.toml"]
EXCLUDED = [
    "docs/_build/",
    TERMS_PAGE,  # It lists them.
    "tests/architecture/test_language.py",  # As the page.
    "tests/corpus/cases/",  # The statements that were executed when the logs were recorded.
    "tests/corpus/logs/",  # What servers wrote.
    "tests/fuzz/crashers/",  # Damaged input.
]


@dataclass(frozen=True)
class Replaced:
    """A term that is not used any more.

    Attributes:
        term: How the page of terms lists it.
        pattern: Finds it in names and in prose, at the borders of words: `_` and a capital letter
            divide words as a space does.
        allowed: What it may be part of, with the reason beside it.
        names_only: It is an ordinary word of prose, but names nothing here.
    """

    term: str
    pattern: str
    allowed: tuple[str, ...] = field(default=())
    names_only: bool = False


REPLACED = [
    Replaced(
        "behind",
        r"behind",
        (
            r"lag\w* behind",  # The plain English use.
            r"(?:is|are|falls?|stays?|seconds) behind(?= the source| source| by)",  # As above.
            r"behind (?:a|the|its) (?:load balancer|proxy|firewall)",  # Networks.
        ),
    ),
    Replaced("in front of", r"in front of"),
    Replaced("told, tells", r"told|tells?|telling", (r"\.tell\(",)),  # Python's files have tell().
    Replaced("made out", r"mad?ke? out|made out"),
    Replaced("goes, went, gone", r"goes|went|gone"),
    Replaced("what becomes of", r"becomes? of|became of"),
    Replaced("place", r"places?", (r"in place", r"place holders?"), names_only=True),
    Replaced(
        "dates that are none, text that is none",
        r"(?:that|which) (?:are|is) (?:none|no (?:dates?|text))|(?:are|is) no (?:dates?|text)",
    ),
    Replaced("catalogue", r"catalogues?"),
    Replaced("heads", r"heads"),
    Replaced("question", r"questions?", (r"question marks?",)),
    Replaced("ask, look", r"asks?|looks?", (r"look ?(?:up|ahead)s?",), names_only=True),
    Replaced("a statement's kind", r"statement'?s?'? kinds?|kinds? of statements?"),
    Replaced("undone, stayed", r"undone|undid|stayed"),
    Replaced("undecided", r"undecided"),
    Replaced("takes over", r"t(?:akes?|aken|ook) over|takeovers?"),
    Replaced("gave up", r"gave up|given up|gives up"),
    Replaced("late", r"late", names_only=True),
    Replaced("fate", r"fates?"),
    Replaced("erasure, emptied", r"erasures?|erased?|emptied|empties"),
    Replaced("remade, doubtful", r"remade|doubtful"),
    Replaced("life", r"life|lives", (r"life ?cycles?",)),
    Replaced("stretch", r"stretch(?:es)?"),
    Replaced("unsaid", r"unsaid"),
    Replaced("made-up", r"made[- ]up|makes up"),
    Replaced(
        "marker",
        r"markers?",
        (
            r"(?:add |iter |strict[- ]|pytest\W+|_)markers?|markers? = \[",  # pytest calls them so.
            r"</?marker|marker(?:-end|Width|Height)",  # An arrow's tip in SVG.
        ),
    ),
    Replaced("seal", r"seal(?:s|ed|ing)?"),
    Replaced("standing", r"standings?"),
    Replaced("former, anew", r"former(?:ly)?|anew"),
    Replaced("forgery", r"forger(?:y|ies)|forged?"),
    Replaced("passed over", r"pass(?:es|ed|ing)? over"),
    Replaced(
        "shape",
        r"shapes?",
        (r"\.shape\b", r"shape \(", r"shape="),  # NumPy's, of an array.
    ),
    Replaced(
        "labels",
        r"labels?",
        # Airflow's name for the text of a field; EMR's for a release.
        (r"\"label\":", r"label: str", r"--release-label"),
    ),
    Replaced(
        "sign",
        r"(?:without|with|lacks?|has|have|no) (?:a )?signs?",
        (r"sign bits?",),
    ),
    Replaced("set aside", r"sets? aside"),
]

PENDING: tuple[str, ...] = ()
"""Rooms whose words are still being replaced. It only shrinks."""


def fold(text: str) -> str:
    """Return `text`, as long as it was, with names divided into words and lines joined."""
    text = re.sub(r"\n[ \t]*#", lambda match: " " * len(match[0]), text)
    return re.sub(r"[_\s]", " ", text)


@cache
def compile_patterns(terms: tuple[Replaced, ...]) -> re.Pattern[str]:
    """Return what finds one of the terms between borders of words, as the group of its index."""
    # Where no letter follows, nothing else is tried: that saves a third of the time.
    start = r"(?=[A-Za-z])(?:(?<![A-Za-z])|(?<=[a-z])(?=[A-Z]))"
    end = r"(?![a-z])(?:(?<=[^A-Z])|(?![A-Z]))"
    choices = (
        f"(?P<n{index}>{re.sub(r'(?<!-) (?!-)', r' +', each.pattern)})"
        for index, each in enumerate(terms)
    )
    return re.compile(rf"{start}(?i:{'|'.join(choices)}){end}")


ANYWHERE = tuple(each for each in REPLACED if not each.names_only)
NAMES = tuple(each for each in REPLACED if each.names_only)


def find(text: str, terms: tuple[Replaced, ...]) -> Iterator[tuple[int, str]]:
    """Yield the offset and the words of every replaced term in `text`."""
    folded = fold(text)
    for match in compile_patterns(terms).finditer(folded):
        term = terms[int(str(match.lastgroup)[1:])]
        around = folded[max(0, match.start() - 24) : match.end() + 24]
        if not any(re.search(one, around, re.IGNORECASE) for one in term.allowed):
            yield match.start(), " ".join(match[0].split())


def defined_names(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of everything that a Python module defines or assigns."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr


def find_in_file(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    name = path.relative_to(ROOT).as_posix()
    found = {(0, words) for _, words in find(name.replace("/", " "), ANYWHERE)}
    found |= {(text.count("\n", 0, at) + 1, words) for at, words in find(text, ANYWHERE)}
    if path.suffix == ".py":
        found |= {(line, each) for line, each in defined_names(text) if any(find(each, NAMES))}
    return [f"{name}:{line}: {words}" for line, words in sorted(found)]


def files_below(folder: str) -> list[Path]:
    found = [ROOT / folder] if (ROOT / folder).is_file() else sorted((ROOT / folder).rglob("*"))
    return [
        path
        for path in found
        if path.is_file()
        and path.suffix in SUFFIXES
        and "__pycache__" not in path.parts
        and not path.relative_to(ROOT).as_posix().startswith(tuple(EXCLUDED))
    ]


def is_pending(path: Path) -> bool:
    return path.relative_to(ROOT).as_posix().startswith(PENDING)


@pytest.mark.parametrize("folder", [*FOLDERS, *PAGES])
def test_no_replaced_term_is_used(folder: str) -> None:
    files = files_below(folder)
    found = [line for path in files if not is_pending(path) for line in find_in_file(path)]

    assert files
    assert "\n".join(found) == ""


def test_what_is_pending_is_not_clean_yet() -> None:
    files = [path for folder in [*FOLDERS, *PAGES] for path in files_below(folder)]
    names = {path.relative_to(ROOT).as_posix(): path for path in files}

    clean = [
        each
        for each in PENDING
        if not any(find_in_file(path) for name, path in names.items() if name.startswith(each))
    ]

    assert clean == []


BAD = '''
"""What goes on behind a COMMIT, passed
over in silence, of a table's former
# catalogue."""

def ask_catalogue(sealed_place: int, theTableFate: int) -> None:
    MADE_UP_LABELS = "lag"
'''
FOUND = [
    *[(2, "goes"), (2, "behind"), (2, "passed over"), (3, "former"), (4, "catalogue")],
    *[(6, "ask_catalogue"), (6, "catalogue"), (6, "sealed"), (6, "sealed_place"), (6, "Fate")],
    *[(7, "MADE UP"), (7, "LABELS")],
]


def test_a_bad_sample_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    (tmp_path / "sealed.py").write_text(BAD)

    found = find_in_file(tmp_path / "sealed.py")

    assert sorted(found) == sorted(
        ["sealed.py:0: sealed", *(f"sealed.py:{line}: {words}" for line, words in FOUND)]
    )


GOOD = """
The replica lags behind its source. Seconds behind the source: 3. A server behind a proxy.
pytest.mark.parametrize; a question mark; rows.shape[0]; file.tell(); a replacement in place.
Placement, sealant, forgone conclusions, category; "vangoes" but goesOn.
"""


def test_what_only_looks_like_a_replaced_term_is_allowed() -> None:
    assert [words for _, words in find(GOOD, ANYWHERE)] == ["goes"]


def test_the_page_of_terms_lists_what_is_searched() -> None:
    page = (ROOT / TERMS_PAGE).read_text(encoding="utf-8")
    table = page.split("| not | but |\n|---|---|\n")[1]

    assert [line.split(" | ")[0].strip("| ") for line in table.splitlines()] == [
        each.term for each in REPLACED
    ]
