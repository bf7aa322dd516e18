"""A real server for every test: `askance serve` in a temporary folder, with tokens of each role."""

from __future__ import annotations

import functools
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import askance

ROOT = Path(__file__).resolve().parents[3]
POLICY = """\
version: 1
name: tests
rules:
  - {name: lookups, tool_name: [lookup, job, brittle, ship, timed], behavior: allow}
  - {name: refunds, tool_name: [refund, pay, approved_job], behavior: ask}
  - {name: drops, tool_name: drop, behavior: deny, message: "'Dropping tables is not allowed here.'"}
  - {name: two, tool_name: transfer, behavior: ask, quorum: 2}
"""
TOOLS = """\
version: 1
tools:
  - {name: lookup, placement: external}
  - {name: refund, placement: external, concurrency_safe: true}
  - {name: pay, placement: external}
  - {name: transfer, placement: external}
  - {name: drop, placement: external}
  - {name: ship, placement: remote, input_schema: {type: object}}
  - {name: job, placement: remote, lease: 6s, idempotent: true, input_schema: {type: object}}
  - {name: timed, placement: remote, timeout: 1m, input_schema: {type: object}}
  - {name: brittle, placement: remote, lease: 6s, input_schema: {type: object}}
  - {name: approved_job, placement: remote, input_schema: {type: object}}
"""
ROLES = {
    "bot": ["--role", "runtime"],
    "other": ["--role", "runtime"],
    "ann": ["--role", "approver"],
    "bob": ["--role", "approver"],
    "eve": ["--role", "approver"],
    "olga": ["--role", "operator"],
    "wendy": ["--role", "worker", *(f"--tool={t}" for t in ("job", "brittle", "ship", "timed", "approved_job"))],
}


def find_binary() -> str:
    path = os.environ.get("ASKANCE_BIN") or str(ROOT / "bin" / "askance")
    if not os.access(path, os.X_OK):
        pytest.exit(f"cannot find askance at {path}: run make build, or set ASKANCE_BIN", returncode=2)
    return path


PATIENCE = 300.0  # each wait is for an event; the limit is only for a test that failed


@functools.cache
def find_tie() -> list[str]:
    """The beginning of a command that ends when the tests end, even if they are killed; Linux has one."""
    tie = ["setpriv", "--pdeathsig", "KILL"]
    known = shutil.which("setpriv") and subprocess.run([*tie, "true"], capture_output=True).returncode == 0
    return tie if known else []


def start_process(*command: Any, **options: Any) -> subprocess.Popen[str]:
    """Start a program that leaves nothing behind when the tests end."""
    return subprocess.Popen([*find_tie(), *command], stdout=subprocess.PIPE, text=True, **options)


def free_address() -> str:
    """A port that systems do not assign: a restarted server must find it free."""
    while True:
        address = ("127.0.0.1", random.randrange(30_000, 32_000))
        with socket.socket() as probe:
            try:
                probe.bind(address)
            except OSError:
                continue
        return f"{address[0]}:{address[1]}"


class Server:
    """One `askance serve` with its data; it can be killed and started again on the same port."""

    def __init__(self, folder: Path, policy: str = POLICY, tools: str = TOOLS) -> None:
        self.folder, self.data = folder, folder / "data"
        (folder / "policy.yaml").write_text(policy)
        (folder / "tools.yaml").write_text(tools)
        self.tokens: dict[str, str] = {}
        for name, options in ROLES.items():
            args = [find_binary(), "token", "create", name, "--data", str(self.data), *options]
            done = subprocess.run(args, check=True, capture_output=True, text=True, timeout=PATIENCE)
            self.tokens[name] = done.stdout.strip()
        self.address = free_address()
        self.process: subprocess.Popen[str] | None = None
        self.clients: list[askance.Client] = []
        self.start()

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    @property
    def socket(self) -> str:
        return str(self.folder / "http.sock")

    @property
    def engine_key(self) -> str:
        return str(self.data / "engine.pub")

    def start(self) -> None:
        """Start the server and wait until it listens."""
        args = [find_binary(), "serve", "--data", str(self.data), "--listen", "127.0.0.1:0", "--http", self.address]
        args += ["--policy", str(self.folder / "policy.yaml"), "--tools", str(self.folder / "tools.yaml")]
        args += ["--durability", "cached", "--http-socket", self.socket]
        errors = (self.folder / "errors.txt").open("a")
        self.process = start_process(*args, stderr=errors)
        errors.close()
        assert self.process.stdout is not None
        for line in self.process.stdout:
            words = line.split()
            if words[:1] == ["console"]:
                self.address = words[1].removeprefix("http://")
                return
        raise AssertionError("askance serve did not start: " + (self.folder / "errors.txt").read_text())

    def kill(self) -> None:
        """Kill the server, as a crash does."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            if self.process.stdout is not None:
                self.process.stdout.close()
            self.process = None

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.kill()

    def client(self, name: str = "bot", **options: Any) -> askance.Client:
        """A client with the token of one of ROLES."""
        client = askance.Client(self.url, self.tokens[name], **options)
        self.clients.append(client)
        return client

    def await_call(self, session: str, match: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait until a call of the session matches, and return it."""
        client = self.client("ann")
        for event in client.calls_stream(session=session):
            known = [event.data["call"]] if event.event == "call" else []
            if event.event == "ready":  # the stream begins with the open calls: look for finished ones
                known = client._drive(client._core.list_calls([("session_id", session), ("all", "true")]))
            for call in known:
                if match(call):
                    found: dict[str, Any] = call
                    return found
        raise AssertionError("the stream ended")

    def await_request(self, session: str, tool: str = "") -> dict[str, Any]:
        """Wait until a call of the session waits for an approval, and return it."""
        return self.await_call(session, lambda c: c["state"] == "asking" and tool in ("", c["tool_name"]))

    def respond(self, session: str, kind: Any = "approve", *, by: str = "ann", tool: str = "", **more: Any) -> Any:
        """Respond to the next approval request of the session."""
        return self.client(by).respond(self.await_request(session, tool), kind, **more)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server that all tests share; each test uses its own session."""
    with tempfile.TemporaryDirectory(prefix="askance-py-") as folder:
        running = Server(Path(folder))
        try:
            yield running
        finally:
            running.close()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """A server of one test, which may kill it."""
    running = Server(tmp_path)
    try:
        yield running
    finally:
        running.close()


@pytest.fixture
def session(request: pytest.FixtureRequest) -> str:
    """A session id of this test."""
    return str(request.node.nodeid)
