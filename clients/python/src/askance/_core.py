"""What the client does, without doing it: generators that yield effects.

A synchronous and an asynchronous driver carry the effects out, so that both
clients share every decision.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
import struct
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, Union, cast
from urllib.parse import quote

from . import _json
from ._errors import AskanceError, Conflict, Invalid, Unavailable, Unfinished, make_invalid_reply, make_problem
from ._outcomes import Allowed, Answered, Denied, Outcome, Proposal, read_outcome, read_text, write_output
from .types import Call, PreviewReply

T = TypeVar("T")
Json = dict[str, Any]

HOLD_MS = 30_000  # how long the server holds a wait
SLACK = 2.0  # how much longer than its deadline a request may take: the server replies to a wait at the deadline
EARLY_PAUSE = 0.5  # after a server ended a wait much too early, in seconds
INTERRUPT_SECONDS = 5.0  # how long a cancelled caller waits for the interrupt of its reply
PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0)  # between repetitions of a request, in seconds


@dataclass(frozen=True)
class Send:
    """One HTTP request; the driver replies with a Reply, or raises Unavailable."""

    what: str
    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: Json | None = None
    key: str = ""
    held: float = 0.0
    within: float | None = None  # seconds until the deadline of the caller


@dataclass(frozen=True)
class Sleep:
    """A pause."""

    seconds: float


@dataclass(frozen=True)
class Invoke:
    """A call of the user's function; the driver replies with what it returns."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Reply:
    """One HTTP response."""

    status: int
    headers: Mapping[str, str]
    body: bytes


Effect = Union[Send, Sleep, Invoke]
Op = Generator[Effect, Any, T]


def segment(part: str, name: str) -> str:
    """Percent-encode an id. An id that no URL can contain is refused before anything is proposed."""
    if part in ("", ".", "..", "/"):
        raise Invalid(f"cannot use {part!r} as {name}: no URL can name it", code="invalid", hint="Choose another id")
    try:
        return quote(part, safe="$&+:=@")
    except UnicodeEncodeError as err:
        raise Invalid(
            f"cannot use the {name}: it is not valid Unicode", code="invalid", hint="Choose another id"
        ) from err


def call_path(session: str, reply: str, call: str) -> str:
    return f"/v1/calls/{segment(session, 'session id')}/{segment(reply, 'reply id')}/{segment(call, 'call id')}"


def reply_path(session: str, reply: str) -> str:
    return f"/v1/sessions/{segment(session, 'session id')}/replies/{segment(reply, 'reply id')}"


def find_key(call: Any) -> tuple[str, str, str]:
    """Return session, reply and call id of a call, an outcome or a triple."""
    if isinstance(call, (Allowed, Answered, Denied)):
        call = call.call
    if isinstance(call, Mapping):
        call = (call.get("session_id"), call.get("reply_id"), call.get("tool_call_id"))
    if (
        isinstance(call, Sequence)
        and not isinstance(call, str)
        and len(call) == 3
        and all(isinstance(p, str) for p in call)
    ):
        return call[0], call[1], call[2]
    raise Invalid(
        f"cannot name the call {call!r:.80}",
        code="invalid",
        hint="Pass a call, or (session_id, reply_id, tool_call_id)",
    )


def derive_id(reply: str, index: int, name: str, text: str) -> str:
    """Derive the id of a call without one; the same proposal has the same id after a restart."""
    with contextlib.suppress(ValueError):
        text = _json.canonicalize(_json.parse(text))
    content = _json.canonicalize(["askance-call-v1", reply, index, name, text])
    return "call_" + hashlib.sha256(content.encode()).hexdigest()[:32]


def idempotency_key(call: Mapping[str, Any]) -> str:
    """The key to pass to the system that has the effect. It is the same for every attempt of a call."""
    digest = hashlib.sha256(b"askance-idempotency-v1\x00")
    for name in ("space", "session_id", "reply_id", "tool_call_id"):
        part = str(call[name]).encode()
        digest.update(struct.pack(">Q", len(part)) + part)
    return "ak_" + digest.hexdigest()


def read_reply(what: str, reply: Reply) -> Json:
    """Read a reply as a JSON object; anything else is an error."""
    headers = {name.lower(): value for name, value in reply.headers.items()}
    media = headers.get("content-type", "").split(";")[0].strip().lower()
    success = 200 <= reply.status < 300
    body: object = None
    if media == ("application/json" if success else "application/problem+json"):
        try:
            body = _json.parse(reply.body)
        except ValueError:
            body = None
    if not success:
        after = headers.get("retry-after", "")
        raise make_problem(what, reply.status, body, float(after) if after.isdecimal() else None)
    if not isinstance(body, dict):
        raise make_invalid_reply(what, "the reply is not a JSON object", reply.status)
    return body


@dataclass
class Requests:
    """Builds requests and repeats those that are safe to repeat."""

    patience: float = 30.0
    clock: Callable[[], float] = field(default=time.monotonic)
    claims: Json = field(default_factory=dict)  # by path, of beginnings that got no reply and may be recorded

    def deadline(self, timeout: float | None) -> float | None:
        """When requests with a timeout end. A timeout of 0 is for the decision alone, not for the server."""
        return self.clock() + timeout + SLACK if timeout else None

    def send(self, send: Send, deadline: float | None = None) -> Op[Json]:
        """Send a request. Without a reply, repeat it with the same key for patience seconds."""
        end = self.clock() + self.patience + send.held
        end = end if deadline is None else min(end, deadline)
        tries = 0
        while True:
            if deadline is not None:
                send = replace(send, within=max(0.1, deadline - self.clock()))
            try:
                return read_reply(send.what, (yield send))
            except AskanceError as err:
                if not (err.retryable or err.code == "unknown_outcome"):
                    raise
                pause = max(PAUSES[min(tries, len(PAUSES) - 1)], err.retry_after or 0.0)
                tries += 1
                if self.clock() + pause >= end:
                    raise
                yield Sleep(pause)

    def post(self, what: str, path: str, body: Json, *, key: bool = True, deadline: float | None = None) -> Op[Json]:
        return self.send(Send(what, "POST", path, body=body, key=secrets.token_hex(16) if key else ""), deadline)

    def get(
        self,
        what: str,
        path: str,
        query: Sequence[tuple[str, str]] = (),
        held: float = 0.0,
        deadline: float | None = None,
    ) -> Op[Json]:
        return self.send(Send(what, "GET", path, tuple(query), held=held), deadline)


def read_calls(what: str, body: Json) -> list[Call]:
    calls = body.get("calls")
    if not isinstance(calls, list) or not all(isinstance(c, dict) for c in calls):
        raise make_invalid_reply(what, "the reply lists no calls")
    return cast("list[Call]", calls)


@dataclass
class GateCore:
    """The calls of one model response: propose, wait, claim, run, report."""

    requests: Requests
    session: str
    reply: str
    agent: str = ""
    parent: Json | None = None
    own: frozenset[str] | None = None
    definitions: dict[str, Json] = field(default_factory=dict)
    functions: dict[str, Callable[[Any], Any]] = field(default_factory=dict)
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.base = reply_path(self.session, self.reply)

    @classmethod
    def make(
        cls, requests: Requests, session: str, reply: str, agent: str, parent: Any, tools: Sequence[Any] | None
    ) -> GateCore:
        """Make the gate's core from the arguments of client.gate."""
        above = None if parent is None else dict(zip(("session_id", "reply_id", "tool_call_id"), find_key(parent)))
        out = cls(requests, session, reply, agent, above)
        for tool in tools or ():
            out.declare(tool)
        if tools is not None:
            out.own = frozenset(out.definitions)
        return out

    def declare(self, tool: Any) -> None:
        """Send the definition of a tool along with its calls."""
        definition = dict(tool) if isinstance(tool, Mapping) else tool.spec.define()
        if not isinstance(tool, Mapping):
            self.functions[tool.spec.name] = tool.spec.invoke
        if self.own is None or definition["name"] in self.own:
            self.definitions[definition["name"]] = definition

    def identify(self, proposals: Sequence[Proposal]) -> list[Proposal]:
        """Give each proposal its id and the exact text of its arguments."""
        out = []
        for proposal in proposals:
            text, call = _json.input_text(proposal.input), proposal.id
            if not call:
                seen = (proposal.name, derive_id(self.reply, 0, proposal.name, text))
                with self.lock:
                    index = self.counts.get(seen, 0)
                    self.counts[seen] = index + 1
                call = derive_id(self.reply, index, proposal.name, text)
            segment(call, "call id")
            out.append(Proposal(proposal.name, text, call))
        if len({p.id for p in out}) != len(out):
            raise Invalid(
                "cannot propose the calls: an id occurs twice", code="invalid", hint="Give each call its own id"
            )
        return out

    def body(self, proposals: Sequence[Proposal]) -> Json:
        """The body of a proposal. Without declared tools, this runtime runs every call."""
        names = dict.fromkeys(p.name for p in proposals)
        out: Json = {
            "tool_calls": [{"type": "tool_call", "id": p.id, "name": p.name, "input": p.input} for p in proposals]
        }
        out |= {"agent": self.agent} if self.agent else {}
        out |= {"parent": self.parent} if self.parent else {}
        declared = [self.definitions[n] for n in names if n in self.definitions]
        external = [n for n in names if n not in self.definitions and (self.own is None or n in self.own)]
        out |= {"tools": declared} if declared else {}
        out |= {"external_tools": external} if external else {}
        return out

    def propose(self, proposals: Sequence[Proposal], deadline: float | None = None) -> Op[list[Call]]:
        """Propose calls and return their current state, in order."""
        what = f"propose calls of reply {self.reply}"
        body = self.body(proposals)
        reply = yield from self.requests.post(what, self.base + "/calls", body, deadline=deadline)
        return self.match(what, proposals, read_calls(what, reply))

    def preview(self, proposals: Sequence[Proposal]) -> Op[PreviewReply]:
        """Ask what the policy would decide; nothing is proposed."""
        body = yield from self.requests.post("preview calls", self.base + "/preview", self.body(proposals), key=False)
        return cast(PreviewReply, body)

    def match(self, what: str, proposals: Sequence[Proposal], calls: Sequence[Call]) -> list[Call]:
        """Find the call of each proposal by its id and name, never by its position."""
        by_id = {c.get("tool_call_id"): c for c in calls}
        out = []
        for p in proposals:
            call = by_id.get(p.id)
            if call is None or (call.get("session_id"), call.get("reply_id")) != (self.session, self.reply):
                raise make_invalid_reply(what, f"the reply lacks the call {p.id}")
            if p.name and call.get("tool_name") != p.name:
                raise make_invalid_reply(what, f"the call {p.id} in the reply is one of another tool")
            out.append(call)
        return out

    def wait(self, ids: Sequence[str], timeout: float | None, deadline: float | None = None) -> Op[list[Call]]:
        """Wait until each call is finished or this runtime can run it, or until the timeout, and return their state."""
        deadline = deadline or self.requests.deadline(timeout)
        end = None if timeout is None else deadline - SLACK if deadline else self.requests.clock() + timeout
        what = f"wait for calls of reply {self.reply}"
        while True:
            asked = self.requests.clock()
            left = HOLD_MS if end is None else min(HOLD_MS, max(1, int(1000 * (end - asked))))
            query = [("tool_call_id", i) for i in ids] + [("until", "runnable"), ("timeout_ms", str(left))]
            body = yield from self.requests.get(what, self.base + "/wait", query, left / 1000, deadline)
            calls = read_calls(what, body)
            if ids:
                calls = self.match(what, [Proposal("", "", i) for i in ids], calls)
            now = self.requests.clock()
            if body.get("done") is True or (end is not None and now >= end):
                return calls
            if now - asked < left / 2000:  # the server did not hold the request
                yield Sleep(EARLY_PAUSE if end is None else min(EARLY_PAUSE, end - now))

    def start(self, proposals: Sequence[Proposal], deadline: float | None) -> Op[list[tuple[Proposal, Call]]]:
        """Propose the calls of one model response together; return each with its current state."""
        proposals = self.identify(proposals)
        return list(zip(proposals, (yield from self.propose(proposals, deadline))))

    def settle(
        self, proposal: Proposal, call: Call, timeout: float | None, deadline: float | None = None
    ) -> Op[Outcome]:
        """Wait until one proposed call is decided."""
        outcome = read_outcome(call, proposal.name)
        if outcome is None:
            [call] = self.match("wait", [proposal], (yield from self.wait([proposal.id], timeout, deadline)))
            outcome = read_outcome(call, proposal.name)
        if outcome is None:
            raise Unavailable(
                f"cannot decide the call {proposal.id} of {proposal.name}: it still waits ({call.get('phase')})",
                code="timeout",
                call=call,
                hint="Call again with the same id to go on waiting",
            )
        return outcome

    def decide(self, proposals: Sequence[Proposal], timeout: float | None) -> Op[list[Outcome]]:
        """Propose calls, wait until each is decided, and claim those that are allowed."""
        out, deadline = [], self.requests.deadline(timeout)
        for proposal, call in (yield from self.start(proposals, deadline)):
            outcome = yield from self.settle(proposal, call, timeout, deadline)
            out.append((yield from self.claim(outcome, deadline)))
        return out

    def decide_one(self, proposal: Proposal, timeout: float | None) -> Op[Outcome]:
        """Decide the call of a tool. If its caller is cancelled, the reply ends: nothing waits for the decision."""
        try:
            [outcome] = yield from self.decide([proposal], timeout)
            return outcome
        except asyncio.CancelledError:
            with contextlib.suppress(AskanceError):  # the cancellation is what the caller asked for
                yield from self.interrupt("the runtime cancelled the call", INTERRUPT_SECONDS)
            raise

    def claim(self, outcome: Outcome, deadline: float | None = None) -> Op[Outcome]:
        """Begin an allowed call: only the first process that does may run it, unless its tool is idempotent.

        A call that ended before has another outcome by now.
        """
        if not isinstance(outcome, Allowed):
            return outcome
        what = f"begin the call {outcome.id}"
        idempotent = (self.definitions.get(outcome.name, {}).get("annotations") or {}).get("idempotent") is True
        path = call_path(self.session, self.reply, outcome.id) + "/begin"
        claim = self.requests.claims.pop(path, "") or secrets.token_hex(16)
        try:
            call = cast(Call, (yield from self.requests.post(what, path, {"claim": claim}, deadline=deadline)))
        except Conflict as err:
            if err.call is None or err.code not in ("finished", "superseded"):
                raise
            call = cast(Call, err.call)
            if err.code == "superseded" and (not idempotent or call.get("blocked")):
                raise Unfinished(
                    f"cannot run the call {outcome.id} of {outcome.name}: another process began it and did not report",
                    code="unfinished",
                    call=err.call,
                    hint="Find out what it did, then report the result or resolve the call",
                ) from None
        except BaseException:
            self.requests.claims[path] = claim
            raise
        [call] = self.match(what, [Proposal("", "", outcome.id)], [call])
        now = read_outcome(call, outcome.name)
        if now is None:
            raise make_invalid_reply(what, "the server says that the call may run, and it may not")
        return now

    def report(self, call: str, name: str, output: object, state: str) -> Op[Call]:
        """Report the result of a call that this runtime ran.

        A result that the server refuses for its content raises, and the call ends with an error
        that says so: nothing else would end it.
        """
        if state not in ("success", "error", "interrupted"):
            raise Invalid(
                f"cannot report the state {state!r}", code="invalid", hint="Use success, error or interrupted"
            )
        result = {"type": "tool_result", "id": call, "name": name, "output": write_output(output), "state": state}
        path = call_path(self.session, self.reply, call) + "/result"
        what = f"report the result of the call {call}"
        try:
            return cast(Call, (yield from self.requests.post(what, path, {"result": result})))
        except AskanceError as err:
            if err.code in ("invalid", "too_large"):
                text = f"the tool ran and ended with {state}, but askance refused its result: {err}"
                refused = result | {"output": text[:4000], "state": "error"}
                with contextlib.suppress(AskanceError):  # the first error says why
                    yield from self.requests.post(what, path, {"result": refused})
            raise

    def run(self, allowed: Allowed, function: Callable[[Any], Any]) -> Op[Any]:
        """Run an allowed call once and report its outcome. Its exception is raised after the report."""
        allowed.begin()
        try:
            value = yield Invoke(function, (allowed.input,))
        except Exception as err:
            yield from self.report(allowed.id, allowed.name, describe(err), "error")
            raise
        except GeneratorExit:
            raise
        except BaseException as err:
            text, state = f"the run was interrupted: {describe(err)}", "interrupted"
            if isinstance(getattr(err, "completed", None), Completed):  # a thread finished nevertheless
                text, state = err.completed.text, "success"  # type: ignore[attr-defined]
            yield from self.report(allowed.id, allowed.name, text, state)
            raise
        try:
            write_output(value)
        except Invalid as err:
            err.tool_ran = True
            yield from self.report(
                allowed.id, allowed.name, f"the tool ran, but its output is not JSON: {err}", "error"
            )
            raise
        try:
            yield from self.report(allowed.id, allowed.name, value, "success")
        except AskanceError as err:
            err.tool_ran = True
            raise
        return value

    def find_function(self, name: str) -> Callable[[Any], Any]:
        if name in self.functions:
            return self.functions[name]
        raise Invalid(
            f"cannot run {name}: the gate has no function for it",
            code="invalid",
            hint="Give the gate the tool in tools=, or pass a function",
        )

    def execute(
        self, proposal: Proposal, function: Callable[[Any], Any] | None, timeout: float | None
    ) -> Op[ToolResult]:
        """Propose, wait, run and report one call. Every failure becomes a text for the model."""
        ran = False
        try:
            function = function or self.find_function(proposal.name)
            [proposal] = self.identify([proposal])
            outcome = yield from self.decide_one(proposal, timeout)
            if isinstance(outcome, Denied):
                return ToolResult(proposal.id, proposal.name, outcome.text, outcome.state)
            if isinstance(outcome, Answered):
                return ToolResult(proposal.id, proposal.name, outcome.output, "success", outcome.output)
            ran = True
            value = yield from self.run(outcome, function)
            return ToolResult(proposal.id, proposal.name, read_text(write_output(value)), "success", value)
        except AskanceError as err:
            prefix = "" if ran else "The tool did not run: "
            if err.tool_ran:
                prefix = "The tool ran, do not call it again. Its result is lost: "
            return ToolResult(proposal.id, proposal.name, prefix + str(err), "error", error=err)
        except Exception as err:
            return ToolResult(proposal.id, proposal.name, describe(err), "error", error=err)

    def interrupt(self, reason: str, timeout: float | None = None) -> Op[list[Call]]:
        """End every open call of the reply."""
        what, deadline = f"interrupt the reply {self.reply}", self.requests.deadline(timeout)
        body: Json = {"reason": reason} if reason else {}
        reply = yield from self.requests.post(what, self.base + "/interrupt", body, deadline=deadline)
        return read_calls(what, reply)


class Completed:
    """What a function returned although its caller was cancelled."""

    def __init__(self, value: object) -> None:
        self.text = write_output(value)


@dataclass(frozen=True)
class ToolResult:
    """What a model gets for its call: ``text``, and whether the tool succeeded."""

    id: str
    name: str
    text: str
    state: str
    value: Any = None
    error: Exception | None = None


def describe(err: BaseException) -> str:
    return str(err) or type(err).__name__
