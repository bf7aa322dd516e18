"""A worker: it takes tasks over /v1/work, checks each grant, runs the tool and reports (gateway/api/WORK.md)."""

from __future__ import annotations

import asyncio
import collections
import contextvars
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from . import _json
from ._async import AsyncClient, run_in_thread
from ._client import HasSpec
from ._core import Json, Op, Send, describe, read_reply
from ._errors import AskanceError, Forbidden, Invalid, InvalidReply, Untrusted, make_invalid_reply
from ._grants import (
    KEY_PARTS,
    Keys,
    Verdict,
    check_start,
    check_task,
    follow_ring,
    keys_in_force,
    make_keys,
    parse_time,
)
from ._outcomes import write_output
from ._tool import ToolSpec

log = logging.getLogger("askance.worker")

REST = 10.0  # the delay before a task that this worker may not start is offered again
UNPROVEN = 10.0  # how long a start is repeated whose reply no known key signed
KEYS_EVERY = 10.0
KEYS_SOON = 1.0
LINES_KEPT = 32
LINES_EVERY = 0.05
LAST_LINES = 1.0  # how long the last lines of a run may take
MIN_LEASE_MS = 500
GONE = {"finished", "archived", "superseded", "interrupted", "not_found", "wrong_state"}
NOT_OURS = {"forbidden", "foreign", "invalid", "too_large"}


# What a request does with its call, for messages.
DOES = {
    "ack": "acknowledge",
    "heartbeat": "keep the lease of",
    "progress": "send progress of",
    "result": "send the result of",
    "start": "start",
}


class Clock:
    """The larger elapsed time of two clocks: one stops when the machine sleeps, the other can be set."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time) -> None:
        self.monotonic, self.wall = monotonic, wall

    def mark(self) -> tuple[float, float]:
        return self.monotonic(), self.wall()

    def elapsed(self, since: tuple[float, float]) -> float:
        return max(self.monotonic() - since[0], self.wall() - since[1])


PinnedKeys = tuple[dict[str, bytes], set[str]]


class Trust:
    """The engine keys that a worker trusts."""

    def __init__(self, client: AsyncClient, pinned: PinnedKeys | None, clock: Clock) -> None:
        self.client, self.clock, self.lock = client, clock, asyncio.Lock()
        self.keys, self.retired = pinned or ({}, set())
        self.pinned = pinned is not None
        self.asked: tuple[float, float] | None = None
        if pinned is None:
            parts = urlsplit(client._settings.url)
            if parts.scheme != "https" and parts.hostname not in ("127.0.0.1", "localhost", "::1"):
                raise Invalid(
                    "cannot take the engine keys over an unencrypted connection",
                    code="invalid",
                    hint="Pass engine_keys, or use https",
                )
        elif not self.keys:
            raise Invalid(
                "cannot trust any engine: engine_keys is empty", code="invalid", hint="Pass the file engine.pub"
            )

    async def find(self, key: str) -> Keys:
        """Return the keys to check a signature by this key. They are fetched again if they are old or lack the key."""
        async with self.lock:
            age = float("inf") if self.asked is None else self.clock.elapsed(self.asked)
            if age >= KEYS_EVERY or (key not in self.keys and age >= KEYS_SOON):
                self.asked = self.clock.mark()
                try:
                    await self._fetch()
                except AskanceError as err:
                    log.warning("cannot fetch the engine keys, using the previous ones: %s", err)
            return self.keys

    async def _fetch(self) -> None:
        body = await self.client._drive(self.client._requests.get("fetch the engine keys", "/v1/work/keys"))
        ring = body.get("keys")
        if not isinstance(ring, list) or not all(isinstance(k, dict) for k in ring):
            raise make_invalid_reply("fetch the engine keys", "the reply lists no keys")
        if self.pinned:
            self.keys, self.retired = follow_ring(ring, self.keys, self.retired)
        else:
            self.keys, self.retired = keys_in_force(ring)


def read_engine_keys(keys: str | os.PathLike[str] | Iterable[str] | None) -> PinnedKeys | None:
    """Read pinned keys and the ids of retired ones: the path of engine.pub, or the keys themselves."""
    if keys is None:
        return None
    if isinstance(keys, os.PathLike) or (isinstance(keys, str) and (set(keys) & set("/\\.") or os.path.exists(keys))):
        try:
            with open(keys, "rb") as file:
                content = _json.parse(file.read())
            if content["v"] != 1 or not content["keys"]:
                raise ValueError("its version is not 1, or it has no keys")
            return keys_in_force(content["keys"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError, AskanceError) as err:
            raise Invalid(
                f"cannot read the engine keys in {os.fspath(keys)}: {err}",
                code="invalid",
                hint="Pass engine.pub, which must exist here",
            ) from err
    return make_keys([keys] if isinstance(keys, str) else keys), set()


@dataclass
class Task:
    """The task that a worker's tool currently runs; ``current_task`` returns it."""

    call: Mapping[str, Any]
    idempotency_key: str
    cancelled: threading.Event = field(default_factory=threading.Event)
    _tell: Callable[[str], None] = field(default=lambda text: None, repr=False)

    def progress(self, text: str) -> None:
        """Send a line of progress, which may get lost."""
        self._tell(text)


_current_task: contextvars.ContextVar[Task | None] = contextvars.ContextVar("askance_task", default=None)


def current_task() -> Task:
    """Return the current task. Pass its idempotency key to the system that has the effect."""
    task = _current_task.get()
    if task is None:
        raise Invalid(
            "cannot give the current task: no worker runs one here", code="invalid", hint="Call it within a tool"
        )
    return task


class NotBegun(Exception):
    """The tool was never called."""


class Lines:
    """The newest lines of progress that were not sent yet. Tools in other threads add to them."""

    def __init__(self) -> None:
        self.loop, self.changed = asyncio.get_running_loop(), asyncio.Event()
        self.waiting: collections.deque[tuple[int, str]] = collections.deque(maxlen=LINES_KEPT)
        self.count, self.closed = 0, False
        self.lock = threading.Lock()

    def add(self, text: str) -> None:
        with self.lock:
            if self.closed:
                return
            self.count += 1
            self.waiting.append((self.count, str(text)[:4000]))
            if len(self.waiting) == 1:
                self.loop.call_soon_threadsafe(self.changed.set)

    def close(self) -> None:
        with self.lock:
            self.closed = True
        self.changed.set()

    async def take(self) -> tuple[int, str] | None:
        """Return the next line and its number, or None at the end."""
        while True:
            with self.lock:
                if self.waiting:
                    return self.waiting.popleft()
                if self.closed:
                    return None
                self.changed.clear()
            await self.changed.wait()


class Attempt:
    """One task, from its check to the reply to its result."""

    def __init__(self, worker: AsyncWorker, spec: ToolSpec, task: Json) -> None:
        self.worker, self.spec, self.client, self.clock = worker, spec, worker.client, worker.clock
        record = task.get("record")
        self.record: Json = record if isinstance(record, dict) else {}
        call = self.record.get("call")
        self.call: Json = call if isinstance(call, dict) else {}
        self.attempt: Json = self.call.get("attempt") or {}
        self.grant: Json = self.attempt.get("grant") or {}
        self.task = str(task.get("task"))
        self.own = {name: self.call.get(name) for name in KEY_PARTS[1:]}
        self.own |= {"attempt": self.attempt.get("number"), "claim": secrets.token_hex(16)}
        self.began = False
        self.since = self.clock.mark()
        self.lease_ms = 0

    async def send(self, operation: str, body: Json, *, once: bool = False) -> Json:
        """Send a request of this attempt; without once, repeat it until there is a reply."""
        what = f"{DOES[operation]} the call {self.call.get('tool_call_id')}"
        tries = 0
        while True:
            try:
                reply = await self.worker.post(what, operation, body)
                if operation != "result" or reply.get("state"):
                    return reply
                log.warning("%s: the reply is not from askance; sending it again", what)  # {} of a proxy
            except AskanceError as err:
                if once or err.code in GONE | NOT_OURS:
                    raise
                log.warning("%s; sending it again", err)
            tries += 1
            await self.client._sleep(min(0.1 * 2**tries, 5.0))

    async def acknowledge(self, delay: float | None = None) -> None:
        """Remove the task from the queue, or return it with a delay."""
        body: Json = {"tool_name": self.spec.name, "task": self.task}
        if self.worker.subject:
            body["subject"] = self.worker.subject
        if delay is not None:
            body |= {"return": True, "delay_ms": int(delay * 1000)}
        try:
            await self.send("ack", body, once=True)
        except AskanceError as err:
            log.warning("a task could not be acknowledged and will come again: %s", err)

    async def check(self) -> Verdict:
        keys = await self.worker.trust.find(str(self.grant.get("key_id", "")))
        return check_task(self.record, self.spec.name, self.worker.subject, keys, time.time_ns())

    async def see_through(self) -> None:
        """Follow the protocol, and return when nothing is left to do."""
        verdict = await self.check()
        if verdict.action == "run" and self.grant["nonce"] in self.worker.begun:
            await self.acknowledge()
            return
        if verdict.action == "expired" and await self.is_expired():
            await self.acknowledge()
        elif verdict.action in ("expired", "early"):
            await self.acknowledge(REST)
        elif verdict.action == "refuse":
            log.error("refused a task: %s", verdict.reason)
            await self.refuse(verdict.reason)
        else:
            reply = await self.start()
            if reply is not None:
                await self.run(reply)

    async def is_expired(self) -> bool:
        """Whether the grant has expired by the engine's clock, too: this one may be wrong."""
        try:
            told = await self.send("heartbeat", self.own | {"attempt": 0}, once=True)  # it only asks for the time
        except AskanceError as err:
            return err.code in GONE
        return bool(told.get("at")) and parse_time(told["at"]) >= parse_time(self.grant["expires"])

    async def refuse(self, reason: str) -> None:
        """Tell the engine why this worker does not run the task; the call stays open."""
        body = self.own | {"request": secrets.token_hex(16), "refuse": reason}
        if self.grant.get("nonce"):
            body["grant_nonce"] = self.grant["nonce"]
        try:
            await self.send("start", body)
            delay = None
        except AskanceError as err:
            log.debug("the refusal was answered: %s", err)
            delay = None if err.code in GONE else REST
        await self.acknowledge(delay)
        await self.client._sleep(KEYS_SOON)

    async def start(self) -> Json | None:
        """Claim the attempt; return the engine's signed permission, or None if there is nothing to run."""
        first, doubted, tries = self.clock.mark(), None, 0
        while True:
            body = self.own | {"request": secrets.token_hex(16), "grant_nonce": self.grant["nonce"]}
            sent = self.clock.mark()
            try:
                reply = await self.send("start", body, once=True)
                keys = await self.worker.trust.find(str(reply.get("key_id", "")))
                check_start(reply, body | {"space": self.call["space"]}, keys)
                self.since = sent if reply.get("fresh") is True else first
                self.lease_ms = reply["lease_ms"]
                self.worker.spawn(self.acknowledge())
                return reply
            except Untrusted as err:
                log.error("%s", err)
                doubted = doubted or sent
                if self.clock.elapsed(doubted) > UNPROVEN:
                    await self.give_back(str(err))
                    await self.acknowledge(REST)
                    return None
            except AskanceError as err:
                if err.code in GONE:
                    await self.acknowledge()
                    if err.code == "superseded" and self.clock.elapsed(first) * 1000 >= MIN_LEASE_MS:
                        await self.give_back("an earlier start was never answered")
                    return None
                if err.code in NOT_OURS:
                    log.error("this worker cannot start the call: %s", err)
                    await self.acknowledge(REST)
                    return None
                log.warning("%s; starting again", err)
            tries += 1
            await self.client._sleep(min(0.1 * 2**tries, 5.0))

    def begin(self, task: Task) -> None:
        """Allow the effect only within the lease, before a cancellation, and only once for each grant."""
        if task.cancelled.is_set():
            raise NotBegun("the run was cancelled before it began")
        if self.lease_ms < MIN_LEASE_MS or self.clock.elapsed(self.since) * 1000 >= 0.75 * self.lease_ms:
            raise NotBegun("the start was answered too late")
        if not self.worker.take_grant(self.grant["nonce"], parse_time(self.grant["expires"])):
            raise NotBegun("the grant was begun in this process already")
        self.began = True

    async def invoke(self, task: Task) -> Any:
        """Call the tool with the arguments that were decided."""
        _current_task.set(task)
        arguments = self.spec.read_input(_json.parse(self.call["request"]["input"]))

        async def call_async() -> Any:
            self.begin(task)
            return await self.spec.function(**arguments)

        def call() -> Any:
            self.begin(task)
            return self.spec.function(**arguments)

        try:
            return await (call_async() if self.spec.is_async else run_in_thread(call, pool=self.worker.threads))
        except SystemExit as err:  # it would end the worker
            raise RuntimeError(f"the tool tried to end the program with status {err.code}") from err

    async def run(self, reply: Json) -> None:
        """Run the tool and report the result, sending heartbeats until the end."""
        loop = asyncio.get_running_loop()
        lines = Lines()
        task = Task(self.call, reply["idempotency_key"], _tell=lines.add)
        running = asyncio.create_task(self.invoke(task))
        self.worker.running.add(running)
        why: list[str] = []

        def cancel(reason: str) -> None:
            if why:  # each later heartbeat says it again, while the tool cleans up
                return
            why.append(reason)
            task.cancelled.set()
            if self.spec.is_async:  # a thread cannot be stopped: its function checks cancelled
                running.cancel()

        timer = None
        if reply.get("deadline"):
            left = (parse_time(reply["deadline"]) - parse_time(reply["at"])) / 1e9  # this clock may be wrong
            timer = loop.call_later(max(0.0, left), cancel, "deadline")
        helpers = [asyncio.create_task(self.beat(reply, cancel)), asyncio.create_task(self.tell(lines))]
        try:
            await asyncio.wait([running])
            if timer is not None:
                timer.cancel()
            lines.close()
            await asyncio.wait(helpers[1:], timeout=LAST_LINES)
            if running.cancelled() and not why and self.began:
                return  # the worker stops: without a result the record stays correct
            await self.report(running, why)
        finally:
            self.worker.running.discard(running)
            lines.close()
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)

    async def report(self, running: asyncio.Task[Any], why: list[str]) -> None:
        """Report the outcome of the run until there is a reply."""
        err = asyncio.CancelledError() if running.cancelled() else running.exception()
        text = "" if err is None else describe(err)
        if why and err is not None:
            text = (
                "the deadline of the run has passed"
                if why[0] == "deadline"
                else f"the run was cancelled: {why[0] or text}"
            )
        if isinstance(err, NotBegun) or (isinstance(err, asyncio.CancelledError) and not self.began):
            await self.give_back(text)
        elif err is not None:
            await self.deliver(text, "interrupted" if why and why[0] != "deadline" else "error")
        else:
            try:
                output = write_output(running.result())
            except Invalid as problem:
                await self.deliver(f"the tool ran, but its output is not JSON: {problem}", "error")
                return
            await self.deliver(output, "success")

    async def deliver(self, output: Any, state: str) -> None:
        result = {
            "type": "tool_result",
            "id": self.own["tool_call_id"],
            "name": self.spec.name,
            "output": output,
            "state": state,
        }
        try:
            stored = await self.send("result", self.own | {"result": result})
            if stored.get("stored") is not True:
                log.warning("the result of the call %s came too late", self.own["tool_call_id"])
        except AskanceError as err:
            if err.code not in ("invalid", "too_large"):
                log.warning("the result does not count: %s", err)
                return
            text = f"the tool ran and ended with {state}, but askance refused its result: {err}"
            try:
                await self.send("result", self.own | {"result": result | {"output": text[:4000], "state": "error"}})
            except AskanceError as again:
                log.error("the result was given up: %s", again)

    async def give_back(self, why: str) -> None:
        """Tell the engine that this worker did not start the attempt and never will."""
        try:
            await self.send("result", self.own | {"not_begun": why[:4000]})
        except AskanceError as err:
            log.warning("the attempt could not be returned: %s", err)

    async def beat(self, reply: Json, cancel: Callable[[str], None]) -> None:
        """Keep the lease, and pass on what the engine says. A missing reply changes nothing."""
        every = min(d for d in (reply["heartbeat_ms"], reply["lease_ms"] / 3) if d > 0) / 1000
        pause = max(0.0, every - self.clock.elapsed(self.since))
        while True:
            await asyncio.sleep(pause)
            sent, told = self.clock.mark(), {}
            try:
                told = await asyncio.wait_for(self.send("heartbeat", self.own, once=True), every)
            except AskanceError as err:
                told = {
                    "stale": err.code in ("superseded", "finished", "archived", "not_found"),
                    "cancel": err.code == "interrupted",
                }
            except (asyncio.TimeoutError, TimeoutError):
                pass
            if told.get("stale") or told.get("cancel"):
                cancel(str(told.get("reason") or ""))
                if told.get("stale"):
                    return
            pause = max(0.0, every - self.clock.elapsed(sent))  # a lost heartbeat does not delay the next one

    async def tell(self, lines: Lines) -> None:
        """Send numbered lines of progress; a line without a reply is lost."""
        while line := await lines.take():
            try:
                await self.send("progress", self.own | {"n": line[0], "text": line[1]}, once=True)
            except AskanceError as err:
                log.debug("a line of progress was lost: %s", err)
            if not lines.closed:
                await asyncio.sleep(LINES_EVERY)


class AsyncWorker:
    """Serves tools over /v1/work until it is stopped.

    ``engine_keys`` pins engine keys (the file engine.pub, or the keys); without it the
    server is trusted for them. ``slots`` is how many tasks of each tool run at once.
    """

    def __init__(
        self,
        client: AsyncClient,
        tools: Sequence[HasSpec],
        *,
        engine_keys: str | os.PathLike[str] | Iterable[str] | None = None,
        subject: str = "",
        slots: int = 1,
        drain: float = 10.0,
    ) -> None:
        if not tools or not 1 <= slots <= 64:
            raise Invalid("cannot start a worker: it needs tools, and 1 to 64 slots", code="invalid")
        self.client, self.tools, self.subject, self.slots, self.drain = client, list(tools), subject, slots, drain
        self.clock = Clock()
        self.trust = Trust(client, read_engine_keys(engine_keys), self.clock)
        self.threads = ThreadPoolExecutor(slots * len(tools), "askance-tool")
        self.begun: dict[str, int] = {}  # when the grants expire, oldest first
        self.running: set[asyncio.Task[Any]] = set()
        self._lock = threading.Lock()
        self._spawned: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Take no more tasks; run returns when running tasks have ended, or after drain seconds."""
        self._stopping.set()

    def take_grant(self, nonce: str, expires: int) -> bool:
        """Let a grant start only once in this process. An expired grant starts nothing."""
        with self._lock:
            if nonce in self.begun:
                return False
            while self.begun and (first := next(iter(self.begun))) and self.begun[first] <= time.time_ns():
                del self.begun[first]
            self.begun[nonce] = expires
            return True

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a background task, for which the end of run waits."""
        task = asyncio.create_task(work)
        self._spawned.add(task)
        task.add_done_callback(self._spawned.discard)

    async def post(self, what: str, operation: str, body: Json, held: float = 0.0) -> Json:
        """Send one request of the work API, once."""
        return await self.client._drive(post_once(what, f"/v1/work/{operation}", body, held))

    async def run(self) -> None:
        """Serve the tools until stop is called; a token that does not name a tool is an error."""
        loops = [asyncio.create_task(self._serve(tool.spec)) for tool in self.tools]
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([*loops, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._stopping.set()
            stopping.cancel()
            await asyncio.shield(asyncio.ensure_future(self._drain()))
            for loop in loops:
                loop.cancel()
            results = await asyncio.gather(*loops, return_exceptions=True)
            self.threads.shutdown(wait=False)
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _drain(self) -> None:
        """Wait for running tasks; after drain seconds, cancel them."""
        await self._wait_for_spawned(self.drain)
        for tool in self.running:
            tool.cancel()
        await self._wait_for_spawned(1.0)
        for task in self._spawned:
            task.cancel()

    async def _wait_for_spawned(self, seconds: float) -> None:
        end = self.clock.monotonic() + seconds
        while self._spawned and self.clock.monotonic() < end:
            await asyncio.wait(set(self._spawned), timeout=end - self.clock.monotonic())

    async def _serve(self, spec: ToolSpec) -> None:
        """Take tasks of one tool, never more than the number of free slots."""
        free = asyncio.Semaphore(self.slots)
        pause = 0.0
        while not self._stopping.is_set():
            await free.acquire()
            count = 1
            while count < self.slots and not free.locked():
                await free.acquire()
                count += 1
            try:
                tasks = await self._next(spec, count)
                pause = 0.0
            except (AskanceError, asyncio.CancelledError) as err:
                for _ in range(count):
                    free.release()
                if isinstance(err, Forbidden) or not isinstance(err, AskanceError):
                    raise
                pause = min(max(0.1, 2 * pause, err.retry_after or 0.0), 5.0)
                log.warning("%s; asking again", err)
                await self.client._sleep(pause)
                continue
            for _ in range(count - len(tasks)):
                free.release()
            for task in tasks:
                self.spawn(self._handle(spec, task, free))

    async def _next(self, spec: ToolSpec, count: int) -> list[Json]:
        body: Json = {"tool_name": spec.name, "limit": count, "wait_ms": 30_000}
        if self.subject:
            body["subject"] = self.subject
        asking = asyncio.create_task(self.post(f"take tasks of {spec.name}", "next", body, held=30))
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([asking, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            if not asking.done():
                asking.cancel()
        if not asking.done() or asking.cancelled():
            return []
        tasks = asking.result().get("tasks")
        if not isinstance(tasks, list) or len(tasks) > count or not all(isinstance(t, dict) for t in tasks):
            raise make_invalid_reply(f"take tasks of {spec.name}", "the reply lists no tasks")
        return tasks

    async def _handle(self, spec: ToolSpec, task: Json, free: asyncio.Semaphore) -> None:
        try:
            await Attempt(self, spec, task).see_through()
        except InvalidReply as err:
            log.error("a task was given up: %s", err)
        except Exception:
            log.exception("a task was given up")
        finally:
            free.release()


def post_once(what: str, path: str, body: Json, held: float) -> Op[Json]:
    """One request without repetitions: the worker decides itself what to repeat."""

    def op() -> Op[Json]:
        return read_reply(what, (yield Send(what, "POST", path, body=body, held=held)))

    return op()


class Worker:
    """A worker for programs without asyncio: run serves the tools until stop is called."""

    def __init__(
        self, url: str, token: str, patience: float, tools: Sequence[HasSpec], options: Mapping[str, Any]
    ) -> None:
        self._url, self._token, self._patience = url, token, patience
        self._tools, self._options = tools, options
        self._lock = threading.Lock()
        self._stopped = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._worker: AsyncWorker | None = None
        read_engine_keys(options.get("engine_keys"))

    def run(self) -> None:
        """Serve the tools; Ctrl-C has the same effect as stop."""
        try:
            asyncio.run(self._run())
        except KeyboardInterrupt:  # asyncio cancelled _run, which ended as after stop
            self.stop()

    async def _run(self) -> None:
        async with AsyncClient(self._url, self._token, patience=self._patience) as client:
            worker = AsyncWorker(client, self._tools, **self._options)
            with self._lock:
                self._loop, self._worker = asyncio.get_running_loop(), worker
                if self._stopped:
                    worker.stop()
            try:
                await worker.run()
            finally:
                with self._lock:
                    self._loop = self._worker = None

    def stop(self) -> None:
        """Stop from another thread or a signal handler; run returns when running tasks have ended."""
        with self._lock:
            self._stopped = True
            if self._loop is not None and self._worker is not None:
                self._loop.call_soon_threadsafe(self._worker.stop)
