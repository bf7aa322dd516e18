"""Workers over /v1/work, against a real server."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import askance
from askance import AsyncClient, Client, HasSpec, Proposal, _grants
from askance._core import Requests
from askance._settings import Settings
from askance._worker import AsyncWorker, Attempt, Clock, Lines, Trust, read_engine_keys
from conftest import PATIENCE, Server, start_process
from test_vectors import load


@contextlib.contextmanager
def working(server: Server, *tools: HasSpec, **options: Any) -> Iterator[None]:
    """Serve tools in a thread, with the engine's key pinned."""
    worker = server.client("wendy").worker(tools, engine_keys=server.engine_key, **options)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join()


def propose(server: Server, session: str, tool: str, **arguments: Any) -> Any:
    """Propose one call of a remote tool."""
    return server.client().gate(session, "r1", tools=[]).propose([Proposal(tool, arguments, "c1")])[0]


def await_end(server: Server, session: str) -> dict[str, Any]:
    return server.await_call(session, lambda c: c["state"] == "finished" or bool(c.get("blocked")))


PROGRAM = """
import signal
import askance

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it

client = askance.Client()

@client.tool
def job() -> str:
    print("began", flush=True)
    return input()

client.worker([job]).run()
"""


@pytest.mark.parametrize("busy", [False, True])
def test_ctrl_c_stops_a_worker(server: Server, session: str, busy: bool) -> None:
    source = str(Path(askance.__file__).resolve().parents[1])
    env = os.environ | {"PYTHONPATH": source, "ASKANCE_URL": server.url, "ASKANCE_TOKEN": server.tokens["wendy"]}
    pipe = subprocess.PIPE
    worker = start_process(sys.executable, "-c", PROGRAM, env=env, stdin=pipe, stderr=pipe)
    propose(server, session, "job")
    assert worker.stdin
    assert worker.stdout
    assert worker.stdout.readline() == "began\n"
    if busy:
        worker.send_signal(signal.SIGINT)
    print("done", file=worker.stdin, flush=True)
    assert await_end(server, session)["result"]["output"] == "done"
    if not busy:
        worker.send_signal(signal.SIGINT)
    assert worker.communicate() == ("", "")
    assert worker.returncode == 0


def test_worker_runs_what_was_allowed(server: Server, session: str) -> None:
    seen: list[askance.Task] = []

    def job(n: int) -> str:
        """Do it."""
        seen.append(askance.current_task())
        askance.current_task().progress("half way")
        return f"did {n}"

    with working(server, server.client("wendy").tool(job)):
        outcome = server.client().gate(session, "r1", tools=[]).call("job", '{"n": 9007199254740993}', id="c1")
    assert isinstance(outcome, askance.Answered)
    assert outcome.output == "did 9007199254740993"
    assert [t.idempotency_key for t in seen] == [askance.idempotency_key(outcome.call)]


def test_approved_and_edited_call_runs_with_the_edit(server: Server, session: str) -> None:
    seen = []

    def approved_job(n: int) -> None:
        seen.append(n)

    propose(server, session, "approved_job", n=500)
    with working(server, server.client("wendy").tool(approved_job)):
        server.respond(session, input={"n": 5})
        await_end(server, session)
    assert seen == [5]


def test_exception_is_reported(server: Server, session: str) -> None:
    def job() -> None:
        raise ValueError("no such order")

    with working(server, server.client("wendy").tool(job)):
        outcome = server.client().gate(session, "r1", tools=[]).call("job", {}, id="c1")
    assert isinstance(outcome, askance.Denied)
    assert (outcome.state, outcome.text) == ("error", "no such order")


def exit_program() -> None:
    sys.exit("no such order")


async def exit_program_async() -> None:
    sys.exit(2)


def end_iteration() -> None:
    next(iter([]))


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (exit_program, "the tool tried to end the program with status no such order"),
        (exit_program_async, "the tool tried to end the program with status 2"),
        (end_iteration, "the function raised StopIteration"),
    ],
)
def test_exception_that_ends_more_than_the_tool(
    server: Server, session: str, function: Callable[[], Any], text: str
) -> None:
    """sys.exit, as in a parser of arguments, ends the call and not the worker."""
    client = AsyncClient(server.url, "x")
    with working(server, client.tool(name="job")(function), client.tool(name="ship")(lambda: "ok")):
        for tool, want in (("job", text), ("ship", "ok")):
            call = server.client().gate(session, tool, tools=[]).call(tool, {}, id="c1")
            assert (call.text if isinstance(call, askance.Denied) else getattr(call, "output", None)) == want


def test_result_that_the_server_would_not_read(server: Server, session: str) -> None:
    """The server closes the connection of a large body, so the worker does not send it."""

    def job() -> str:
        return "x" * 30_000_000

    propose(server, session, "job")
    with working(server, server.client("wendy").tool(job)):
        result = await_end(server, session)["result"]
    assert result["state"] == "error"
    assert "ran and ended with success" in result["output"]


def test_each_slot_has_a_thread(server: Server, session: str) -> None:
    """Slots beyond the threads that asyncio has by default run at the same time, too."""
    together = threading.Barrier(8)

    def job(n: int) -> str:
        together.wait(PATIENCE)
        return "ok"

    sessions = [f"{session}-{n}" for n in range(8)]
    for n, of in enumerate(sessions):
        propose(server, of, "job", n=n)
    with working(server, server.client("wendy").tool(job), slots=8):
        calls = [await_end(server, of) for of in sessions]
    assert [(c["result"]["output"], c["begun"]) for c in calls] == [("ok", 1)] * 8


def test_cancelled_run_does_not_begin(server: Server, session: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that was interrupted between its start and the tool does not run."""
    ran: list[int] = []
    gate = server.client().gate(session, "r1", tools=[])
    original = Attempt.invoke

    async def invoke(self: Attempt, task: askance.Task) -> Any:
        await asyncio.to_thread(gate.interrupt, "enough")
        await asyncio.to_thread(task.cancelled.wait, PATIENCE)
        return await original(self, task)

    monkeypatch.setattr(Attempt, "invoke", invoke)

    def ship(n: int) -> None:
        ran.append(n)

    gate.propose([Proposal("ship", {"n": 1}, "c1")])
    with working(server, server.client("wendy").tool(ship)):
        call = await_end(server, session)
    assert ran == []
    assert call["state"] == "finished"


def test_lost_heartbeats_do_not_delay_the_next_one(
    server: Server, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of the four heartbeats in a lease may get lost."""
    beats, kept = itertools.count(1), threading.Event()
    original = AsyncWorker.post

    async def post(self: AsyncWorker, what: str, operation: str, body: Any, held: float = 0.0) -> Any:
        if operation == "heartbeat":
            beat = next(beats)
            if beat == 6:
                kept.set()
            if beat % 3:
                await asyncio.sleep(3600)
        return await original(self, what, operation, body, held)

    monkeypatch.setattr(AsyncWorker, "post", post)

    def job() -> bool:
        return kept.wait(PATIENCE)

    propose(server, session, "job")
    with working(server, server.client("wendy").tool(job)):
        call = await_end(server, session)
    assert (call["result"]["output"], call["begun"]) == ("true", 1)


def test_tool_is_cancelled_once(server: Server, session: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Later heartbeats that repeat the cancellation do not break the tool's cleanup."""
    beats: list[str] = []
    original = AsyncWorker.post

    async def post(self: AsyncWorker, what: str, operation: str, body: Any, held: float = 0.0) -> Any:
        reply = await original(self, what, operation, body, held)
        if operation == "heartbeat":
            beats.append(what)
            reply["cancel"] = True
        return reply

    monkeypatch.setattr(AsyncWorker, "post", post)

    async def job() -> str:
        try:
            await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError:
            while len(beats) < 3:
                await asyncio.sleep(0.01)
        return "cleaned up"

    propose(server, session, "job")
    with working(server, AsyncClient(server.url, "x").tool(job)):
        call = await_end(server, session)
    assert (call["result"]["state"], call["result"]["output"]) == ("success", "cleaned up")


def test_deadline_with_a_wrong_clock(server: Server, session: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time until the deadline is the engine's, not that of this machine's clock."""
    ahead = SimpleNamespace(
        monotonic=time.monotonic, time_ns=lambda: time.time_ns() + 90 * 10**9, time=lambda: time.time() + 90
    )
    monkeypatch.setattr("askance._worker.time", ahead)

    async def timed() -> str:
        return "ok"

    propose(server, session, "timed")
    with working(server, AsyncClient(server.url, "x").tool(timed)):
        call = await_end(server, session)
    assert call["result"]["output"] == "ok"
    assert call["begun"] == 1


@pytest.mark.parametrize("hours", [0, 24])
def test_grant_that_expired_by_a_wrong_clock(
    server: Server, session: str, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    """A task goes back to the queue until its grant has expired by the engine's clock."""
    ahead = SimpleNamespace(
        monotonic=time.monotonic, time_ns=lambda: time.time_ns() + 24 * 3600 * 10**9, time=time.time
    )
    monkeypatch.setattr("askance._worker.time", ahead)
    acks: queue.Queue[dict[str, Any]] = queue.Queue()
    plain = AsyncWorker.post

    async def post(self: AsyncWorker, what: str, operation: str, body: Any, **more: Any) -> Any:
        if operation == "ack":
            acks.put(body)
        reply = await plain(self, what, operation, body, **more)
        if operation == "heartbeat":
            reply["at"] = (datetime.fromisoformat(reply["at"][:19]) + timedelta(hours=hours)).isoformat() + "Z"
        return reply

    monkeypatch.setattr(AsyncWorker, "post", post)

    def job() -> None: ...

    gate = server.client().gate(session, "r1", tools=[])
    gate.propose([Proposal("job", {}, "c1")])
    with working(server, server.client("wendy").tool(job)):
        assert acks.get(timeout=PATIENCE).get("return", False) is (hours == 0)
        gate.interrupt("the other tests share the queue")


def test_flood_of_progress_is_bounded() -> None:
    async def story() -> list[Any]:
        lines = Lines()

        def flood() -> None:
            for n in range(100_000):
                lines.add(f"line {n}")

        await asyncio.to_thread(flood)
        lines.close()
        lines.add("too late")
        return [await lines.take() for _ in range(33)]

    taken = asyncio.run(story())
    assert taken[-2:] == [(100_000, "line 99999"), None]


def test_interrupt_reaches_the_tool(server: Server, session: str) -> None:
    started, told = threading.Event(), []

    def job() -> None:
        started.set()
        told.append(askance.current_task().cancelled.wait(PATIENCE))
        raise RuntimeError("stopped half way")

    gate = server.client().gate(session, "r1", tools=[])
    gate.propose([Proposal("job", {}, "c1")])
    with working(server, server.client("wendy").tool(job)):
        assert started.wait(PATIENCE)
        gate.interrupt("enough")
        call = await_end(server, session)
    assert call["result"]["state"] == "interrupted"
    assert told == [True]


def test_engine_key_of_no_file(server: Server) -> None:
    client = server.client("wendy")
    with pytest.raises(askance.Invalid, match=r"nowhere\.pub.*must exist here"):
        client.worker([client.tool(name="job")(lambda: "ok")], engine_keys="nowhere.pub").run()


def test_token_of_another_role_ends_the_worker(server: Server) -> None:
    client = server.client("bot")

    @client.tool
    def job() -> None: ...

    with pytest.raises(askance.Forbidden):
        client.worker([job], engine_keys=server.engine_key).run()


class Tampering(AsyncClient):
    """A client whose tasks and start replies are changed in transit."""

    change: Callable[[str, dict[str, Any]], None]

    async def _perform(self, effect: Any) -> Any:
        reply = await super()._perform(effect)
        path = getattr(effect, "path", "")
        if path.startswith("/v1/work/") and reply.status == 200:
            body = json.loads(reply.body)
            self.change(path.rpartition("/")[2], body)
            return askance._core.Reply(reply.status, reply.headers, json.dumps(body).encode())
        return reply


@contextlib.asynccontextmanager
async def tampered(
    server: Server, change: Callable[[str, dict[str, Any]], None], ran: list[int], clock: Clock | None = None
) -> AsyncIterator[None]:
    client = Tampering(server.url, server.tokens["wendy"])
    client.change = change
    async with client:

        async def job(n: int) -> None:
            ran.append(n)

        worker = client.worker([client.tool(job)], engine_keys=server.engine_key)
        if isinstance(clock, SteppedClock):
            worker.clock, client._sleep = clock, clock.sleep
        running = asyncio.create_task(worker.run())
        try:
            yield
        finally:
            worker.stop()
            await running


@pytest.mark.parametrize(("status", "code"), [(500, "internal"), (507, "full"), (507, "foreign_stream"), (200, "")])
def test_result_is_sent_until_it_is_answered(server: Server, session: str, status: int, code: str) -> None:
    """An engine that cannot store the result now, or the {} of a proxy, says nothing about the call."""

    class Failing(AsyncClient):
        failures = 2

        async def _perform(self, effect: Any) -> Any:
            if getattr(effect, "path", "").endswith("/result") and self.failures > 0:
                self.failures -= 1
                if status == 200:
                    return askance._core.Reply(200, {"content-type": "application/json"}, b"{}")
                problem = json.dumps({"code": code, "detail": "it failed"}).encode()
                return askance._core.Reply(status, {"content-type": "application/problem+json"}, problem)
            return await super()._perform(effect)

    async def story() -> dict[str, Any]:
        propose(server, session, "brittle")
        async with Failing(server.url, server.tokens["wendy"]) as client:
            client._sleep = lambda seconds: asyncio.sleep(0)
            worker = client.worker([client.tool(name="brittle")(lambda: "ok")], engine_keys=server.engine_key)
            running = asyncio.create_task(worker.run())
            call = await asyncio.to_thread(await_end, server, session)
            worker.stop()
            await running
            return call

    assert asyncio.run(story())["result"]["output"] == "ok"


def change_input(operation: str, body: dict[str, Any]) -> None:
    for task in body.get("tasks", []):
        call = task["record"]["call"]
        call["input"] = call["request"]["input"] = '{"n":666}'


def test_refusal_that_is_not_accepted_returns_the_task(server: Server, session: str) -> None:
    """The engine does not record the refusal, so the task must stay in the queue."""
    acks: list[dict[str, Any]] = []

    class Refused(Tampering):
        async def _perform(self, effect: Any) -> Any:
            path = getattr(effect, "path", "")
            if path.endswith("/ack"):
                acks.append(effect.body)
            if path.endswith("/start") and not acks:
                problem = json.dumps({"code": "forbidden", "detail": "no"}).encode()
                return askance._core.Reply(403, {"content-type": "application/problem+json"}, problem)
            return await super()._perform(effect)

    async def story() -> None:
        propose(server, session, "ship")
        client = Refused(server.url, server.tokens["wendy"])
        async with client:
            worker = client.worker([Client("http://x", "").tool(name="ship")(take_job)], engine_keys=server.engine_key)

            async def sleep(seconds: float) -> None:
                worker.stop()

            client.change, client._sleep = change_input, sleep
            await worker.run()

    asyncio.run(story())
    assert acks[0]["return"] is True
    server.client().gate(session, "r1").interrupt()


def test_tampered_task_does_not_run(server: Server, session: str) -> None:
    async def story() -> tuple[list[int], dict[str, Any]]:
        ran: list[int] = []
        propose(server, session, "job", n=1)
        async with tampered(server, change_input, ran):
            call = await asyncio.to_thread(server.await_call, session, lambda c: bool(c.get("returned")))
        return ran, call

    ran, call = asyncio.run(story())
    assert ran == []
    assert "not" in call["returned"]["reason"] or "another" in call["returned"]["reason"]
    assert call["state"] != "finished"
    with working(server, server.client("wendy").tool(take_job)):
        assert await_end(server, session)["result"]["state"] == "success"


def take_job(n: int) -> None:
    """Take a call of job from the queue."""


take_job.__name__ = "job"


def test_start_that_no_engine_signed_does_not_run(server: Server, session: str) -> None:
    """A start reply with a changed lease is not proved: after ten seconds the attempt is returned and runs later."""
    clock = SteppedClock()

    async def story() -> list[int]:
        ran: list[int] = []
        async with tampered(server, lengthen_lease, ran, clock):
            await asyncio.to_thread(server.await_call, session, lambda c: c["attempt"].get("number") == 2)
        return ran

    propose(server, session, "job", n=1)
    assert asyncio.run(story()) == []
    assert clock.now > 1010
    with working(server, server.client("wendy").tool(take_job)):
        assert await_end(server, session)["result"]["state"] == "success"


def lengthen_lease(operation: str, body: dict[str, Any]) -> None:
    if operation == "start":
        body["lease_ms"] += 1


class SteppedClock(Clock):
    """A clock that a test controls."""

    def __init__(self) -> None:
        self.now = 1000.0
        super().__init__(lambda: self.now, lambda: self.now)

    async def sleep(self, seconds: float) -> None:
        """Let the time pass immediately."""
        self.now += seconds
        await asyncio.sleep(0)


def test_late_start_is_given_back(server: Server, session: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the start reply arrives after three quarters of the lease, the attempt is returned and runs later."""
    ran: list[int] = []
    clock = SteppedClock()

    async def story() -> dict[str, Any]:
        async with AsyncClient(server.url, server.tokens["wendy"]) as client:

            async def job(n: int) -> None:
                ran.append(n)

            worker = client.worker([client.tool(job)], engine_keys=server.engine_key)
            worker.clock = clock
            original, late = Attempt.start, [True]

            async def start(self: Attempt) -> Any:
                reply = await original(self)
                if late.pop() if late else False:
                    clock.now += 0.75 * self.lease_ms / 1000
                return reply

            monkeypatch.setattr(Attempt, "start", start)
            running = asyncio.create_task(worker.run())
            call = await asyncio.to_thread(await_end, server, session)
            worker.stop()
            await running
            return call

    propose(server, session, "job", n=1)
    call = asyncio.run(story())
    assert ran == [1]
    assert (call["result"]["state"], call["attempt"]["number"], call["begun"]) == ("success", 2, 1)


def test_grant_begins_once(server: Server) -> None:
    worker = AsyncClient(server.url, "x").worker(
        [Client(server.url, "x").tool(take_job)], engine_keys=server.engine_key
    )
    later = time.time_ns() + 10**12
    assert worker.take_grant("nonce", later)
    assert not worker.take_grant("nonce", later)
    assert worker.take_grant("expired", 1)
    assert worker.take_grant("next", later)
    assert worker.take_grant("last", later)
    assert not worker.take_grant("nonce", later)


def test_keys_need_an_encrypted_connection_or_a_pin() -> None:
    client = AsyncClient("http://askance.example", "x")
    with pytest.raises(askance.Invalid, match="unencrypted"):
        client.worker([client.tool(take_job)])
    with pytest.raises(askance.Invalid, match="empty"):
        client.worker([client.tool(take_job)], engine_keys=[])


def test_engine_key_file(server: Server, tmp_path: Path) -> None:
    pinned = read_engine_keys(Path(server.engine_key))
    assert pinned is not None
    assert (len(pinned[0]), pinned[1]) == (1, set())
    file = json.loads(Path(server.engine_key).read_text())
    old = "A" * 43
    retired = {"id": _grants.name_key(_grants.parse_key(old)), "public_key": old, "retired": "2026-01-01T00:00:00Z"}
    file["keys"].insert(0, retired)
    (tmp_path / "rotated.pub").write_text(json.dumps(file))
    assert read_engine_keys(tmp_path / "rotated.pub") == (pinned[0], {retired["id"]})
    for changed in (
        {},
        {"v": 2, "keys": file["keys"]},
        {"v": 1, "keys": []},
        {"v": 1, "keys": [retired | {"id": "x"}]},
        {"v": 1, "keys": ["x"]},
    ):
        (tmp_path / "x.pub").write_text(json.dumps(changed))
        with pytest.raises(askance.Invalid, match=r"engine\.pub"):
            read_engine_keys(tmp_path / "x.pub")
    (tmp_path / "x.pub").write_text(json.dumps(file)[:-1] + f', "keys": {json.dumps([retired])}}}')
    with pytest.raises(askance.Invalid, match="twice"):
        read_engine_keys(tmp_path / "x.pub")
    with pytest.raises(askance.Invalid, match="No such file"):
        read_engine_keys(str(tmp_path / "missing"))


def test_a_retired_key_of_the_file_stays_retired(tmp_path: Path) -> None:
    """A server introduces a key again that engine.pub lists as retired."""
    ring = next(row["ring"] for row in load("keyrings.json")["rows"] if row["name"] == "a successor")
    first, second = ring[0], ring[1] | {"retired": "2026-01-01T00:00:00Z"}
    (tmp_path / "engine.pub").write_text(json.dumps({"v": 1, "keys": [first, second]}))

    class Server:
        _requests = Requests()

        async def _drive(self, op: Any) -> Any:
            return {"keys": ring}

    async def find() -> set[str]:
        pinned = read_engine_keys(tmp_path / "engine.pub")
        return set(await Trust(cast(AsyncClient, Server()), pinned, Clock()).find(second["id"]))

    assert asyncio.run(find()) == {first["id"]}


def test_keys_without_a_pin_are_those_of_the_server() -> None:
    """The server is trusted for them, also if it has made new ones that no old one introduces."""
    ring = next(row["ring"] for row in load("keyrings.json")["rows"] if row["name"] == "a successor")
    rings = [[ring[0]], [ring[1]]]

    class Server:
        _requests, _settings = Requests(), Settings.read("http://127.0.0.1:1", "x")

        async def _drive(self, op: Any) -> Any:
            return {"keys": rings.pop(0)}

    async def find() -> None:
        trust = Trust(cast(AsyncClient, Server()), None, Clock())
        for key in ring[:2]:
            trust.asked = None
            assert set(await trust.find(key["id"])) == {key["id"]}

    asyncio.run(find())


def test_worker_outlives_the_server(own_server: Server, session: str) -> None:
    """If the server is killed while the tool runs, the result is stored after its restart."""
    started, go_on = threading.Event(), threading.Event()

    def job() -> str:
        started.set()
        assert go_on.wait(PATIENCE)
        return "done"

    propose(own_server, session, "job")
    with working(own_server, own_server.client("wendy").tool(job)):
        assert started.wait(PATIENCE)
        own_server.kill()
        go_on.set()
        own_server.start()
        assert await_end(own_server, session)["result"]["output"] == "done"
