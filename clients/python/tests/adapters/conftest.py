"""A server with the policy of the adapter tests, and the people who answer its requests."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeVar

import pytest

from adapters.world import DRIVERS, Call, Case, Seen, read_effects, run_case
from conftest import PATIENCE, Server

T = TypeVar("T")

POLICY = """
version: 1
name: adapters
defaults: {expiry: 1h}
rules:
  - {name: look, tool: frontend/look, behavior: allow}
  - {name: pay, tool: frontend/pay, behavior: ask, approvers: {users: [ann, bob]}}
  - {name: wire, tool: frontend/wire, behavior: ask, approvers: {users: [ann, bob]}, quorum: 2}
  - {name: refund, tool: frontend/refund, behavior: ask}
  - {name: wipe, tool: frontend/wipe, behavior: deny, description: Agents delete nothing.}
"""


# A clean process imports the frameworks once, and each process of a test is forked from it.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([f"adapters.driver_{name}" for name in DRIVERS])


def start_thread(work: Callable[[], T]) -> Future[T]:
    """Work in a thread that no test waits for longer than PATIENCE."""
    out: Future[T] = Future()

    def run() -> None:
        try:
            out.set_result(work())
        except BaseException as err:
            out.set_exception(err)

    threading.Thread(target=run, daemon=True).start()
    return out


class Person:
    """An approver at the server of the tests."""

    def __init__(self, server: Server, name: str) -> None:
        self.client = server.client(name)

    def await_request(self, session: str, call_id: str, votes: int = 0) -> dict[str, Any]:
        """Return the call with its open approval request. It comes from the stream of calls, without polling."""
        return start_thread(lambda: self._follow(session, call_id, votes)).result(PATIENCE)

    def _follow(self, session: str, call_id: str, votes: int) -> dict[str, Any]:
        for event in self.client.calls_stream(session=session):
            call: dict[str, Any] = event.data.get("call", {}) if event.event == "call" else {}
            if call.get("tool_call_id") != call_id:
                continue
            assert call["state"] != "finished", call["result"]
            if call["state"] == "asking" and len(call.get("votes") or []) >= votes:
                return call
        raise AssertionError("the stream of calls ended")

    def answer(self, session: str, call_id: str, kind: Any, **more: Any) -> Mapping[str, Any]:
        return self.client.respond(self.await_request(session, call_id), kind, **more)

    def find(self, session: str, call_id: str) -> Mapping[str, Any]:
        [call] = self.client._drive(
            self.client._core.list_calls([("session_id", session), ("tool_call_id", call_id), ("all", "true")])
        )
        return call


class Place:
    """The server of the adapter tests, and its people."""

    def __init__(self, folder: Path) -> None:
        self.server = Server(folder, POLICY, "version: 1\ntools: []\n")
        self.url, self.token = self.server.url, self.server.tokens["bot"]
        self.ann, self.bob, self.olga = (Person(self.server, n) for n in ("ann", "bob", "olga"))
        self.eve, self.bot = Person(self.server, "eve"), Person(self.server, "bot")


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    started = Place(tmp_path_factory.mktemp("askance"))
    yield started
    started.server.close()


class Stage:
    """One test: an agent of one framework in a session of its own."""

    def __init__(self, place: Place, driver: Any, folder: Path, session: str) -> None:
        self.place, self.driver, self.thread = place, driver, session
        self.session = getattr(driver, "SESSION", "{}").format(session)  # the name of the thread in askance
        self.path = folder / "effects"

    def case(self, *calls: Call, **more: Any) -> Case:
        return Case(self.place.url, self.place.token, self.thread, list(calls), self.path, **more)

    @property
    def effects(self) -> list[tuple[str, dict[str, Any]]]:
        return sorted(read_effects(self.path), key=json.dumps)

    @contextmanager
    def running(self, *calls: Call, **more: Any) -> Iterator[Future[Seen]]:
        """Runs the agent in a thread while the test acts as the people."""
        case = self.case(*calls, **more)
        run = start_thread(lambda: self.driver.run(case))
        yield run
        run.exception(timeout=PATIENCE)

    def start_process(self, *calls: Call, **more: Any) -> BaseProcess:
        """Runs the agent in a process that a test can kill."""
        process = PROCESSES.Process(target=run_case, args=(self.driver.__name__, self.case(*calls, **more)))
        with pytest.MonkeyPatch.context() as patch:  # Python 3.11 preloads only from PYTHONPATH
            patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
            process.start()
        return process

    def finish(self, process: BaseProcess) -> Seen:
        process.join(PATIENCE)
        assert process.exitcode == 0
        return Seen(**json.loads(self.path.with_suffix(".seen").read_text()))
