"""Fuzzing: every input that once crashed a decoder, and a short run of each."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.fuzz import __main__ as fuzz
from tests.fuzz.__main__ import TARGETS
from tests.fuzz.mutate import mutate
from tests.fuzz.targets import Target, execute
from tests.fuzz.worker import CRASHERS, limited

BY_NAME = {target.name: target for target in TARGETS}
SEEDS_MAX = 50
"""So many undamaged inputs of each decoder, spread over all; `tests/unit/corpus` reads the rest."""

SAVED = sorted(path for path in CRASHERS.glob("*/*") if path.is_file())


@pytest.mark.parametrize("path", SAVED, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_saved_crasher_stays_fixed(path: Path) -> None:
    with limited():
        execute(BY_NAME[path.parent.name], path.read_bytes())


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_damaged_input_gives_a_value_or_an_error_of_our_tree(target: Target) -> None:
    random = Random(target.name)
    corpus = tuple(target.seeds())
    chosen = corpus[:: 1 + len(corpus) // SEEDS_MAX]
    for data in [
        *chosen,
        *(target.mutate(random, random.choice(corpus), corpus) for _ in range(40)),
    ]:
        with limited():
            execute(target, data)


def test_a_seed_repeats_the_damage() -> None:
    def damage(seed: int) -> list[bytes]:
        random = Random(seed)
        return [mutate(random, bytes(range(64)), [b"other"]) for _ in range(200)]

    assert damage(1) == damage(1)
    assert damage(1) != damage(2)


def test_a_run_without_executions_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fuzz, "work", lambda *_: 0)

    assert fuzz.main(["--seconds", "0", "header"]) == 1
    assert "No executions of header." in capsys.readouterr().out
