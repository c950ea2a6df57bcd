"""Runs that overlap, wake late or are repeated, and a Variable that somebody lost or overwrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_provider_binlog.checkpoint import checkpoint_key
from airflow_provider_binlog.cli import checkpoints
from airflow_provider_binlog.cli.commands import main
from airflow_provider_binlog.errors import CheckpointError, CheckpointMissingError
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.staging.object_store import ObjectStore
from tests.faults.tasks import Tasks

pytestmark = [pytest.mark.server, pytest.mark.timeout(120)]

SMALL = Limits(part_bytes_max=400, pending_bytes_max=1000)
KEY = checkpoint_key("shop")


class Delayed:
    """A store before one of whose writes something happens: the writer sleeps meanwhile."""

    def __init__(self, store: ObjectStore, number: int, meanwhile: Callable[[], None]) -> None:
        self._store, self._left, self._meanwhile = store, number, meanwhile
        self.slept = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write(self, key: str, data: bytes) -> None:
        self._sleep()
        self._store.write(key, data)

    def create(self, key: str, data: bytes) -> None:
        self._sleep()
        self._store.create(key, data)

    def _sleep(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.slept = True
            self._meanwhile()


@pytest.mark.fault("zombie", servers="mysql97 mysql80 mariadb1011 mariadb118", stores="file")
def test_an_extract_that_wakes_after_its_successors(kind: str, tasks: Tasks) -> None:
    """It slept before each of its writes in turn, and several runs finished meanwhile."""
    tasks.run(limits=SMALL)
    number, before = 1, 10
    while True:
        tasks.change(before)

        def succeed(first: int = before) -> None:
            tasks.run(limits=SMALL)
            tasks.change(first + 1)
            tasks.run(limits=SMALL)

        delayed = Delayed(tasks.store, number, succeed)
        zombie = replace(tasks, store=cast("ObjectStore", delayed))
        try:
            staged = zombie.stage(limits=SMALL)
        except (AirflowFailException, AirflowSkipException):
            staged = None
        if not delayed.slept:
            break
        saved = dict(tasks.variables)
        if staged is not None:
            with suppress(AirflowFailException):
                tasks.save(staged)
        assert dict(tasks.variables) == saved
        tasks.check()
        number, before = number + 1, before + 2
    assert number >= 4
    assert staged is not None
    tasks.save(staged)
    tasks.check()
    tasks.nothing_left()


@pytest.mark.fault("zombie", servers="mysql97 mariadb118", stores="file")
def test_a_checkpoint_that_wakes_after_its_successors(kind: str, tasks: Tasks) -> None:
    delayed = tasks.stage()
    tasks.change(2)
    tasks.run()
    tasks.change(3)
    tasks.run()
    saved = tasks.checkpoint()

    tasks.save(delayed)

    assert tasks.checkpoint() == saved
    tasks.nothing_left()


@pytest.mark.fault("task-cleared", servers="mysql97 mariadb118", stores="file")
def test_cleared_tasks_of_old_runs(kind: str, tasks: Tasks) -> None:
    first = tasks.run()
    tasks.change(2)
    tasks.run()
    before = tasks.manifests()

    # The extract of the first run has nothing to do, and its checkpoint is passed.
    tasks.nothing_left()
    saved = tasks.checkpoint()
    tasks.save(first)

    assert (tasks.manifests(), tasks.checkpoint()) == (before, saved)
    tasks.check()
    tasks.change(3)
    tasks.run()


def follow(text: str, tasks: Tasks) -> None:
    """Execute the command that an error names."""
    tasks.patch.setattr(checkpoints, "MetastoreVariableStore", lambda: tasks.variables)
    _, _, command = text.partition("repair=airflow binlog ")
    words = command.partition(f" {tasks.staging}")[0].split()
    assert main([*words, tasks.staging]) == 0


@pytest.mark.fault("variable-lost", servers="mysql97 mariadb118", stores="file")
def test_a_lost_variable_is_rebuilt_as_the_error_says(kind: str, tasks: Tasks) -> None:
    tasks.run()
    tasks.change(2)
    tasks.variables.clear()

    follow(tasks.fails(CheckpointMissingError), tasks)

    tasks.run()
    tasks.nothing_left()


@pytest.mark.fault("variable-nonsense", servers="mysql97 mariadb118", stores="file")
def test_an_overwritten_variable_is_rebuilt_as_the_error_says(kind: str, tasks: Tasks) -> None:
    tasks.run()
    first = tasks.variables[KEY]
    tasks.change(2)
    tasks.run()
    tasks.change(3)
    good = json.loads(tasks.variables[KEY])
    edited = good | {"sequence": 1}

    for nonsense in ("", "null", "[]", "nonsense", tasks.variables[KEY][:-2], json.dumps(edited)):
        tasks.variables[KEY] = nonsense
        text = tasks.fails(CheckpointError)
    follow(text, tasks)
    tasks.run()

    # One that was saved earlier is a checkpoint: what is staged after it is not staged again.
    tasks.variables[KEY] = first
    again = tasks.run()
    assert (again["first_sequence"], again["last_sequence"]) == (2, 3)
    tasks.nothing_left()
