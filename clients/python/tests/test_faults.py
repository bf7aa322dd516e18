"""Servers, processes or tasks stop: nothing runs twice, and nothing runs without approval."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import askance
from askance import Allowed, Answered, AsyncClient, Client, Denied, Proposal
from askance._adapter import is_same
from askance._core import GateCore, Reply, Requests, Send, Sleep
from conftest import Server, start_process

SOURCE = Path(askance.__file__).resolve().parents[1]

# Proposes one call and runs it if allowed. During the run it prints "ran" and then waits for a line.
PROGRAM = """
import sys, askance
session, tool, idempotent = sys.argv[1], sys.argv[2], sys.argv[3] == "idempotent"
gate = askance.Client().gate(session, "r1", tools=[{"name": tool, "annotations": {"idempotent": idempotent}}])
def run(given):
    print("ran", given["n"], flush=True)
    sys.stdin.readline()
    return "done"
result = gate.run(tool, {"n": 1}, run)
print(result.state, type(result.error).__name__, flush=True)
"""


class Runtime:
    """A real process with the program; its ids are derived, so a second one makes the same proposal."""

    def __init__(self, server: Server, session: str, tool: str, kind: str = "") -> None:
        env = os.environ | {"PYTHONPATH": str(SOURCE), "ASKANCE_URL": server.url, "ASKANCE_TOKEN": server.tokens["bot"]}
        args = [sys.executable, "-c", PROGRAM, session, tool, kind]
        self.process = start_process(*args, env=env, stdin=subprocess.PIPE)

    def read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.mark.parametrize("idempotent", [False, True])
def test_interrupted_after_the_decision(server: Server, session: str, idempotent: bool) -> None:
    """A call that was allowed but ended before it started does not run."""
    proposals = [Proposal("refund", {}, "c1"), Proposal("refund", {}, "c2")]
    tool = {"name": "refund", "annotations": {"idempotent": idempotent}}
    gate = server.client().gate(session, "r1", tools=[tool])
    gate.propose(proposals)
    for request in server.client("ann").requests(session=session):
        server.client("ann").respond(request, "approve")
    outcomes = gate.calls(proposals)
    assert isinstance(next(outcomes), Allowed)
    gate.interrupt("stop")
    late = next(outcomes)
    assert isinstance(late, Denied)
    assert late.state == "interrupted"


def test_interrupted_after_the_decision_async(server: Server, session: str) -> None:
    async def run() -> list[type]:
        async with AsyncClient(server.url, server.tokens["bot"]) as client:
            gate = client.gate(session, "r1", tools=[{"name": "lookup"}])
            outcomes = gate.calls([Proposal("lookup", {"n": n}, f"c{n}") for n in range(2)])
            first = await anext(outcomes)
            assert isinstance(first, Allowed)
            await gate.report(first, "done")
            await gate.wait("c1")
            await gate.interrupt("stop")
            return [type(o) async for o in outcomes]

    assert asyncio.run(run()) == [Denied]


def test_killed_while_asking(server: Server, session: str) -> None:
    """If the approval arrives while no process runs, the next process runs the call."""
    first = Runtime(server, session, "refund")
    request = server.await_request(session)
    first.kill()
    server.client("ann").respond(request, "approve")
    second = Runtime(server, session, "refund")
    assert second.read() == "ran 1"
    second.go_on()
    assert second.read() == "success NoneType"
    second.kill()


def test_killed_after_the_run_before_the_report(server: Server, session: str) -> None:
    first = Runtime(server, session, "lookup")
    assert first.read() == "ran 1"
    first.kill()
    second = Runtime(server, session, "lookup")
    assert second.read() == "error Unfinished"
    second.kill()


def test_idempotent_tool_runs_again(server: Server, session: str) -> None:
    first = Runtime(server, session, "lookup", "idempotent")
    assert first.read() == "ran 1"
    first.kill()
    second = Runtime(server, session, "lookup", "idempotent")
    assert second.read() == "ran 1"
    second.go_on()
    assert second.read() == "success NoneType"
    second.kill()


def test_two_processes_at_once_run_once(server: Server, session: str) -> None:
    both = [Runtime(server, session, "lookup") for _ in range(2)]
    said = sorted(r.read() for r in both)
    assert said == ["error Unfinished", "ran 1"]
    for runtime in both:
        runtime.kill()


def test_one_outcome_runs_once(server: Server, session: str) -> None:
    outcome = server.client().gate(session, "r1").call("lookup", {}, id="c1")
    assert isinstance(outcome, askance.RunnableCall)
    assert outcome.run(lambda given: 1) == 1
    with pytest.raises(askance.AskanceError, match="twice"):
        outcome.run(lambda given: 2)


def test_server_down() -> None:
    """Requests are repeated with one key until the time limit; after that the tool does not run."""
    client = Client("http://127.0.0.1:1", "token", patience=60)
    now, keys = [0.0], []

    def sleep(seconds: float) -> None:
        now[0] += seconds

    perform = client._perform

    def watch(effect: Any) -> Any:
        if isinstance(effect, Send):
            keys.append(effect.key)
        return perform(effect)

    client._sleep, client._requests.clock, client._perform = sleep, lambda: now[0], watch  # type: ignore[method-assign]
    with pytest.raises(askance.Unavailable, match="does not answer") as caught:
        client.gate("s", "r").call("lookup", {})
    assert caught.value.code == "unavailable"
    assert 55 < now[0] < 60
    assert len(keys) > 20
    assert len(set(keys)) == 1
    ran: list[object] = []
    result = client.gate("s", "r").run("lookup", {}, ran.append)
    assert (result.state, ran) == ("error", [])
    assert result.text.startswith("The tool did not run: cannot propose calls of reply r: askance at http://")


@pytest.mark.parametrize("call_id", ["cc4", ""])
def test_arguments_that_are_not_text(call_id: str) -> None:
    gate = Client("http://127.0.0.1:1").gate("s", "r")
    result = gate.run("refund", '{"a": "\ud800"}', lambda given: "done", id=call_id)
    assert (result.id, result.name, result.state) == (call_id, "refund", "error")
    assert isinstance(result.error, askance.Invalid)
    assert result.text.startswith("The tool did not run: ")


def test_report_lost(server: Server, session: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is told that the tool ran, so it has no reason to call it again."""
    client = server.client(patience=0.0)
    perform = client._perform

    def break_report(effect: Any) -> Any:
        if isinstance(effect, Send) and effect.path.endswith("/result"):
            raise askance.Unavailable("cannot report", code="unavailable", retryable=True)
        return perform(effect)

    monkeypatch.setattr(client, "_perform", break_report)
    result = client.gate(session, "r1").run("lookup", {}, lambda given: "done", id="c1")
    assert result.text == "The tool ran, do not call it again. Its result is lost: cannot report"


def test_result_too_large(server: Server, session: str) -> None:
    """The call ends with an error instead of waiting for ever, and the model is told that the tool ran."""
    gate = server.client().gate(session, "r1")
    result = gate.run("lookup", {}, lambda given: "x" * 1_000_000, id="c1")
    assert result.text.startswith("The tool ran, do not call it again. Its result is lost: cannot report")
    [call] = gate.wait("c1")
    assert call["result"]["state"] == "error"
    assert call["result"]["output"].startswith("the tool ran and ended with success, but askance refused its result")


def test_reply_of_begin_lost(server: Server, session: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start is recorded and its reply lost: the same client runs the call once, another one does not."""
    client, lost = server.client(patience=0.0), [1, 2]
    perform = client._perform

    def lose_begin(effect: Any) -> Any:
        reply = perform(effect)
        if isinstance(effect, Send) and effect.path.endswith("/begin") and lost:
            lost.pop()
            raise askance.Unavailable("lost", code="unavailable", retryable=True)
        return reply

    monkeypatch.setattr(client, "_perform", lose_begin)
    for asking in (client, server.client(), client):
        with pytest.raises(askance.Unavailable if asking is client else askance.Unfinished):
            asking.gate(session, "r1").call("lookup", {}, id="c1")
    assert isinstance(client.gate(session, "r1").call("lookup", {}, id="c1"), Allowed)
    with pytest.raises(askance.Unfinished):
        client.gate(session, "r1").call("lookup", {}, id="c1")


def test_edit_of_a_number_to_a_boolean() -> None:
    """Python treats true as equal to 1, but such an edit counts as an edit."""
    assert is_same({"a": [1]}, {"a": [1]})
    assert not is_same({"a": True}, {"a": 1})
    assert not is_same({"a": 1.0}, {"a": 1})


def test_server_restarted_while_waiting(own_server: Server, session: str) -> None:
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(own_server.client().gate(session, "r1").call, "refund", {"n": 1}, id="c1")
        own_server.await_request(session)
        own_server.kill()
        own_server.start()
        own_server.respond(session)
        assert isinstance(waiting.result(), Allowed)


def test_token_of_another_role(server: Server, session: str) -> None:
    with pytest.raises(askance.Forbidden):
        server.client("ann").gate(session, "r1").call("lookup", {})
    server.client().gate(session, "r1").call("lookup", {}, id="c1")
    with pytest.raises(askance.Forbidden) as caught:
        server.client("other").gate(session, "r1").call("lookup", {}, id="c1")
    assert caught.value.code == "foreign"
    with pytest.raises(askance.Forbidden):
        Client(server.url, "askance_0000000000000000_x").whoami()


def test_interrupt_of_a_synchronous_run(server: Server, session: str) -> None:
    gate = server.client().gate(session, "r1")
    outcome = gate.call("lookup", {}, id="c1")
    assert isinstance(outcome, askance.RunnableCall)

    def press_ctrl_c(given: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        outcome.run(press_ctrl_c)
    assert server.client().show(outcome)["call"]["result"]["state"] == "interrupted"


def test_exception_of_a_run(server: Server, session: str) -> None:
    outcome = server.client().gate(session, "r1").call("lookup", {}, id="c1")
    assert isinstance(outcome, askance.RunnableCall)
    with pytest.raises(ZeroDivisionError):
        outcome.run(lambda given: 1 / 0)
    result = server.client().show(outcome)["call"]["result"]
    assert (result["state"], result["output"]) == ("error", "division by zero")


def test_cancelled_run(server: Server, session: str) -> None:
    async def story() -> dict[str, Any]:
        async with AsyncClient(server.url, server.tokens["bot"]) as client:
            outcome = await client.gate(session, "r1").call("lookup", {}, id="c1")
            assert isinstance(outcome, askance.AsyncRunnableCall)
            started = asyncio.Event()

            async def run(given: object) -> None:
                started.set()
                await asyncio.Event().wait()

            running = asyncio.create_task(outcome.run(run))
            await started.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            shown: Any = await client.show(outcome)
            return dict(shown["call"]["result"])

    assert asyncio.run(story())["state"] == "interrupted"


@pytest.mark.parametrize("method", ["run", "call"])
def test_cancelled_wait(server: Server, session: str, method: str) -> None:
    """It interrupts the reply of a tool; the request of gate.call stays open."""

    async def story() -> None:
        async with AsyncClient(server.url, server.tokens["bot"]) as client:
            gate = client.gate(session, "r1")
            waiting = asyncio.ensure_future(
                gate.run("refund", {}, pytest.fail, id="c1") if method == "run" else gate.call("refund", {}, id="c1")
            )
            await asyncio.to_thread(server.await_request, session)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    asyncio.run(story())
    call = server.client().show((session, "r1", "c1"))["call"]
    assert call["state"] == ("asking" if method == "call" else "finished")


def test_cancelled_thread_that_came_to_its_end(server: Server, session: str) -> None:
    """A thread cannot be stopped. Its result is reported, and the cancellation continues."""

    async def story() -> dict[str, Any]:
        async with AsyncClient(server.url, server.tokens["bot"]) as client:
            outcome = await client.gate(session, "r1").call("lookup", {}, id="c1")
            assert isinstance(outcome, askance.AsyncRunnableCall)
            loop, started, go_on = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

            def run(given: object) -> str:
                loop.call_soon_threadsafe(started.set)
                asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result()
                return "paid"

            running = asyncio.create_task(outcome.run(run))
            await started.wait()
            running.cancel()
            loop.call_soon(go_on.set)
            with pytest.raises(asyncio.CancelledError):
                await running
            shown: Any = await client.show(outcome)
            return dict(shown["call"]["result"])

    result = asyncio.run(story())
    assert (result["state"], result["output"]) == ("success", "paid")


def test_interrupted_reply(server: Server, session: str) -> None:
    client = server.client()
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(client.gate(session, "r1").call, "refund", {}, id="c1")
        server.await_request(session)
        client.gate(session, "r1").interrupt("the user left")
        outcome = waiting.result()
    assert isinstance(outcome, Denied)
    assert outcome.state == "interrupted"


def test_events_resume_across_a_restart(own_server: Server, session: str) -> None:
    """No event is lost or repeated when the server is killed in between."""
    client = own_server.client()
    gate = client.gate(session, "r1")
    stream = client.events(session)
    gate.propose([Proposal("refund", {"n": 1}, "c1")])
    seen = [next(stream)]
    own_server.kill()
    own_server.start()
    client.gate(session, "r2").propose([Proposal("drop", {}, "c2")])
    while seen[-1].data["type"] != "TOOL_RESULT_END":
        seen.append(next(stream))
    stored = client.events(session)
    assert [next(stored).id for _ in seen] == [e.id for e in seen]
    later = client.events(session, after=seen[0].id)
    assert next(later).id == seen[1].id
    assert len({e.id for e in seen}) == len(seen)


def test_timeout_of_a_wait(server: Server, session: str) -> None:
    with pytest.raises(askance.Unavailable) as caught:
        server.client().gate(session, "r1").call("refund", {}, id="c1", timeout=0.05)
    assert caught.value.code == "timeout"


def test_timeout_of_a_server_that_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timeout of a call counts for the requests, too, and 0 only for the decision."""
    monkeypatch.setattr("askance._core.SLACK", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as listener:  # it accepts and never replies
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        begun = time.monotonic()
        with Client(url, "") as client, pytest.raises(askance.Unavailable, match="does not answer"):
            client.gate("s", "r").call("lookup", {}, timeout=0.05)
        assert time.monotonic() - begun < 5
    for timeout, within in ((10.0, 10.05), (0.0, None), (None, None)):
        gate = GateCore(Requests(clock=lambda: 0.0), "s", "r")
        for op in (gate.decide([Proposal("lookup", {}, "c1")], timeout), gate.wait(["c1"], timeout)):
            assert getattr(op.send(None), "within", "nothing was sent") == within


@pytest.mark.parametrize(("timeout", "within"), [(10.0, 5.0), (None, None)])
def test_timeout_covers_all_requests_of_a_call(timeout: float | None, within: float | None) -> None:
    """Proposal, wait and beginning share the time: a server that is slow each time does not get it three times."""
    call = (
        '{"session_id":"s","reply_id":"r","tool_call_id":"c1","tool_name":"lookup","input":"{}","placement":"external"'
    )
    now = [0.0]
    op = GateCore(Requests(clock=lambda: now[0]), "s", "r").decide([Proposal("lookup", {}, "c1")], timeout)
    op.send(None)
    now[0] = 4.0
    wait: Any = op.send(make_reply('{"calls":[' + call + ',"state":"asking"}]}'))
    assert dict(wait.query)["timeout_ms"] == ("6000" if timeout else "30000")
    now[0] = 7.0
    begin: Any = op.send(make_reply('{"done":true,"calls":[' + call + ',"state":"submitted"}]}'))
    assert (begin.path[-6:], begin.within) == ("/begin", within)


@pytest.mark.parametrize(("is_async", "waits"), [(False, ["6000", "5000"]), (True, ["6000", "6000"])])
def test_timeout_covers_calls_together(is_async: bool, waits: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls share one timeout, and what their caller does with an outcome takes nothing from it."""
    call = '{"session_id":"s","reply_id":"r","tool_call_id":"%s","tool_name":"lookup","input":"{}","placement":"external","state":"%s"}'
    proposals = [Proposal("lookup", {}, "c1"), Proposal("lookup", {}, "c2")]
    now, sent = [0.0], list[Send]()

    def answer(send: Send) -> Reply:
        sent.append(send)
        if send.path.endswith("/calls"):
            now[0] += 4
            return make_reply('{"calls":[' + call % ("c1", "asking") + "," + call % ("c2", "asking") + "]}")
        if send.path.endswith("/wait"):
            return make_reply('{"done":true,"calls":[' + call % (dict(send.query)["tool_call_id"], "submitted") + "]}")
        now[0] += 1
        return make_reply(call % (send.path.split("/")[-2], "submitted"))

    async def answer_async(send: Send) -> Reply:
        return answer(send)

    def use(outcome: object) -> None:
        assert isinstance(outcome, Allowed)
        now[0] += 60

    async def run() -> None:
        async with AsyncClient("http://127.0.0.1", "") as client:
            client._requests.clock = lambda: now[0]
            monkeypatch.setattr(client, "_perform", answer_async)
            async for outcome in client.gate("s", "r").calls(proposals, timeout=10):
                use(outcome)

    if is_async:
        asyncio.run(run())
    else:
        with Client("http://127.0.0.1", "") as client:
            client._requests.clock = lambda: now[0]
            monkeypatch.setattr(client, "_perform", answer)
            for outcome in client.gate("s", "r").calls(proposals, timeout=10):
                use(outcome)
    assert [dict(s.query)["timeout_ms"] for s in sent if s.path.endswith("/wait")] == waits
    assert [s.within for s in sent if s.path.endswith("/begin")] == [8.0, 7.0]


def test_stale_digest_is_refused(server: Server, session: str) -> None:
    server.client().gate(session, "r1").propose([Proposal("refund", {"n": 1}, "c1")])
    request = server.await_request(session)
    with pytest.raises(askance.Conflict) as caught:
        server.client("ann").respond(request, "approve", digest="sha256:" + "0" * 64)
    assert caught.value.code == "digest_mismatch"
    assert caught.value.call is not None
    assert caught.value.call["digest"] == request["digest"]


def test_ids_with_other_content_conflict(server: Server, session: str) -> None:
    gate = server.client().gate(session, "r1")
    gate.propose([Proposal("refund", {"n": 1}, "c1")])
    with pytest.raises(askance.Conflict):
        gate.propose([Proposal("refund", {"n": 2}, "c1")])


def make_reply(body: str, status: int = 200) -> Reply:
    return Reply(status, {"content-type": "application/json"}, body.encode())


def test_replies_that_cannot_be_believed() -> None:
    """A reply with other calls, or with none, allows nothing."""
    call = '{"session_id":"s","reply_id":"r","tool_call_id":"%s","tool_name":"%s","input":"{}","state":"submitted","placement":"external"}'
    for body in (
        "",
        "[]",
        "{}",
        '{"calls":[]}',
        '{"calls":[1]}',
        '{"calls":[' + call % ("c2", "lookup") + "]}",
        '{"calls":[' + call % ("c1", "drop") + "]}",
        '{"calls":[' + (call % ("c1", "lookup")).replace('"s"', '"x"') + "]}",
    ):
        op = GateCore(Requests(), "s", "r").decide([Proposal("lookup", {}, "c1")], None)
        op.send(None)
        with pytest.raises(askance.InvalidReply):
            op.send(make_reply(body))


def test_requests_wait_as_the_server_says() -> None:
    op = Requests(patience=60, clock=lambda: 0.0).get("read", "/v1/info")
    op.send(None)
    busy = Reply(429, {"retry-after": "7"}, b"")
    assert op.send(busy) == Sleep(7.0)
    assert isinstance(op.send(None), Send)
    with pytest.raises(StopIteration):
        op.send(make_reply("{}"))


def test_wait_that_the_server_does_not_hold() -> None:
    """The client pauses before it asks again, unless the server held the request, and never longer than it may wait."""
    now = [0.0]
    unfinished = make_reply('{"calls":[],"done":false}')
    op = GateCore(Requests(clock=lambda: now[0]), "s", "r").wait([], None)
    op.send(None)
    assert op.send(unfinished) == Sleep(0.5)
    assert isinstance(op.send(None), Send)
    now[0] = 30.0
    assert isinstance(op.send(unfinished), Send)
    op = GateCore(Requests(clock=lambda: now[0]), "s", "r").wait([], 0.25)
    op.send(None)
    assert op.send(unfinished) == Sleep(0.25)


def test_answered_call_is_not_run_again(server: Server, session: str) -> None:
    gate = server.client().gate(session, "r1")
    first = gate.run("lookup", {"n": 1}, lambda given: "found", id="c1")
    again = gate.run("lookup", {"n": 1}, lambda given: pytest.fail("it ran twice"), id="c1")
    assert (first.text, again.text) == ("found", "found")
    assert isinstance(gate.call("lookup", {"n": 1}, id="c1"), Answered)


BROKEN = {
    "compressed garbage": (b"200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip", "unavailable"),
    "a strange number": ("503 busy\r\nRetry-After: \xb2".encode("latin-1"), "unavailable"),
    "no text": (b"200 OK\r\nContent-Type: application/json", "invalid_reply"),
}


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("head", BROKEN)
def test_a_broken_reply_is_an_error_of_the_client(head: str, is_async: bool) -> None:
    """Any other error would end a worker, and a program that catches AskanceError."""
    wire, code = BROKEN[head]

    async def ask(url: str) -> None:
        async with AsyncClient(url, "", patience=0) as client:
            await client.whoami()

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as threads:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        accepting = threads.submit(answer_once, listener, wire)
        with pytest.raises(askance.AskanceError) as caught:
            asyncio.run(ask(url)) if is_async else Client(url, "", patience=0).whoami()
        accepting.result()
    assert caught.value.code == code


def answer_once(listener: socket.socket, head: bytes) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 " + head + b"\r\nContent-Length: 4\r\nConnection: close\r\n\r\n\xffbad")


@pytest.mark.parametrize("url", ["http://host:port", "http://[::1", "http://xn--a", "http://", "unix://s", "ftp://x"])
def test_a_url_that_cannot_be_used(url: str) -> None:
    with pytest.raises(askance.Invalid, match="cannot use the URL"):
        Client(url)
