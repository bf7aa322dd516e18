"""The synchronous client: it carries out what the core decides, with httpx and the clock."""

from __future__ import annotations

import contextvars
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, Protocol, TypeVar, Union, cast, overload

import httpx

from ._calls import ClientCore
from ._core import GateCore, Invoke, Op, Requests, Send, Sleep, ToolResult
from ._errors import AskanceError, CallDenied, Invalid
from ._outcomes import Allowed, Answered, Denied, Outcome, Proposal
from ._settings import LIMITS, Settings, make_unreachable, read_response
from ._stream import Event, Follower
from ._tool import ToolSpec, copy_name
from .types import Call, InfoReply, PreviewedCall, PreviewReply, ShowReply, WhoamiReply

if TYPE_CHECKING:
    from ._worker import Worker

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")
State = Literal["success", "error", "interrupted"]


class HasSpec(Protocol):
    """A tool of either client."""

    @property
    def spec(self) -> ToolSpec: ...


class RunnableCall(Allowed):
    """An allowed call of a synchronous gate."""

    _gate: Gate

    def run(self, function: Callable[[Any], T]) -> T:
        """Run ``function(input)`` and report it: an exception as error, an interrupt as interrupted."""
        return cast(T, self._gate._drive(self._gate.core.run(self, function)))

    def report(self, output: object, state: State = "success") -> None:
        """Report a run that you started yourself with ``input``."""
        self._gate.report(self, output, state)


SyncOutcome = Union[RunnableCall, Denied, Answered]


class Gate:
    """The calls of one model response in one session."""

    def __init__(self, client: Client, core: GateCore) -> None:
        self.client, self.core, self._drive = client, core, client._drive
        self._tokens: list[contextvars.Token[Gate | None]] = []

    def __enter__(self) -> Gate:
        self._tokens.append(_current.set(self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        _current.reset(self._tokens.pop())

    def call(
        self, name: str, input: str | Mapping[str, Any], *, id: str = "", timeout: float | None = None
    ) -> SyncOutcome:
        """Propose one call and wait until it is decided.

        After ``timeout`` seconds raise Unavailable, with code timeout if the call still waits.
        """
        return self._bind(self._drive(self.core.decide([Proposal(name, input, id)], timeout))[0])

    def calls(self, proposals: Sequence[Proposal], *, timeout: float | None = None) -> Iterator[SyncOutcome]:
        """Propose the calls of one model response together; yield the outcomes in order, each when it is decided.

        Run and report each before you take the next: a later call can wait for the result of an earlier one.
        ``timeout`` is for all of them together. The time that you use between two outcomes does not count.
        """
        deadline = self.core.requests.deadline(timeout)
        return self._settle(self._drive(self.core.start(proposals, deadline)), timeout, deadline)

    def _settle(
        self, calls: list[tuple[Proposal, Call]], timeout: float | None, deadline: float | None
    ) -> Iterator[SyncOutcome]:
        clock = self.core.requests.clock
        for proposal, call in calls:
            outcome = self._drive(self.core.settle(proposal, call, timeout, deadline))
            outcome = self._drive(self.core.claim(outcome, deadline))
            given = clock()
            yield self._bind(outcome)
            deadline = deadline and deadline + clock() - given

    def _bind(self, outcome: Outcome) -> SyncOutcome:
        if not isinstance(outcome, Allowed):
            return outcome
        out = RunnableCall(outcome.call, outcome.input, outcome.input_text)
        object.__setattr__(out, "_gate", self)
        return out

    def propose(self, proposals: Sequence[Proposal]) -> list[Call]:
        """Propose calls and return their current state immediately. It does not permit anything to run."""
        return self._drive(self.core.propose(self.core.identify(proposals)))

    def wait(self, *ids: str, timeout: float | None = None) -> list[Call]:
        """Wait until the calls (without ids, all of the reply) are finished or this runtime can run them."""
        return self._drive(self.core.wait(ids, timeout))

    def run(
        self,
        tool: HasSpec | str,
        input: str | Mapping[str, Any],
        function: Callable[[Any], Any] | None = None,
        *,
        id: str = "",
        timeout: float | None = None,
    ) -> ToolResult:
        """Propose, wait, run and report one call of a model. A failure is in the result, as a text for the model.

        ``tool`` is a tool, the name of one that the gate has in ``tools``, or any name with a ``function``.
        """
        proposal = Proposal(name_tool(self.core, tool), input, id)
        return self._drive(self.core.execute(proposal, function, timeout))

    def report(self, call: Allowed | str, output: object, state: State = "success", *, name: str = "") -> Call:
        """Report the result of a call that this process ran; ``call`` is the outcome or, with ``name``, its id."""
        return self._drive(self.core.report(*name_call(call, name), output, state))

    def interrupt(self, reason: str = "") -> list[Call]:
        """End every open call of the reply."""
        return self._drive(self.core.interrupt(reason))

    def preview(self, proposals: Sequence[Proposal]) -> PreviewReply:
        """Ask what the current policy would decide; nothing is proposed."""
        return self._drive(self.core.preview(self.core.identify(proposals)))


_current: contextvars.ContextVar[Gate | None] = contextvars.ContextVar("askance_gate", default=None)


def name_call(call: Allowed | str, name: str) -> tuple[str, str]:
    """Return the id and the tool of a call to report."""
    if isinstance(call, Allowed):
        return call.id, call.name
    if not name:
        raise Invalid("cannot report the result: the tool's name is missing", code="invalid", hint="Pass name=")
    return call, name


def name_tool(core: GateCore, tool: HasSpec | str) -> str:
    """Return the name of a tool to run; a text names a tool that the gate has."""
    if isinstance(tool, str):
        return tool
    core.declare(tool)
    return tool.spec.name


def finish_call(result: ToolResult) -> Any:
    """Return what a wrapped function returns for a result, or raise the error that explains why it did not run."""
    if result.state == "success":
        return result.value
    if result.error is not None:
        raise result.error
    raise CallDenied(result.text, code="denied")


class Tool(Generic[P, R]):
    """A gated function. Each call is proposed in the current gate and runs only if it is allowed."""

    def __init__(self, client: Client, function: Callable[P, R], spec: ToolSpec) -> None:
        self.client, self.spec = client, spec
        copy_name(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        gate = _current.get()
        if gate is None:
            raise Invalid(
                f"cannot call {self.spec.name}: there is no gate",
                code="invalid",
                hint="Call it within `with client.gate(session, reply):`",
            )
        return cast(R, finish_call(gate.run(self, self.spec.write_input(args, kwargs))))


class Client:
    """A connection to askance. Settings default to ASKANCE_URL and ASKANCE_TOKEN.

    ``patience`` is how many seconds a request is repeated while the server does not answer.
    """

    def __init__(self, url: str | None = None, token: str | None = None, *, patience: float = 30.0) -> None:
        self._settings = Settings.read(url, token)
        socket = self._settings.socket
        transport = httpx.HTTPTransport(uds=socket, limits=LIMITS) if socket else None
        self._http = httpx.Client(follow_redirects=False, transport=transport, limits=LIMITS)
        self._requests = Requests(patience)
        self._core = ClientCore(self._requests)
        self._sleep: Callable[[float], None] = time.sleep

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _drive(self, op: Op[T]) -> T:
        with closing(op):
            try:
                effect = op.send(None)
                while True:
                    try:
                        value: Any = self._perform(effect)
                    except BaseException as err:
                        effect = op.throw(err)
                    else:
                        effect = op.send(value)
            except StopIteration as end:
                return cast(T, end.value)

    def _perform(self, effect: Send | Sleep | Invoke) -> Any:
        if isinstance(effect, Sleep):
            return self._sleep(effect.seconds)
        if isinstance(effect, Invoke):
            value = effect.function(*effect.arguments)
            if hasattr(value, "__await__"):
                getattr(value, "close", lambda: None)()
                raise Invalid("cannot run an async function in Client", code="invalid", hint="Use AsyncClient")
            return value
        try:
            return read_response(self._http.request(**self._settings.arguments(effect)))
        except httpx.RequestError as err:
            raise make_unreachable(effect.what, self._settings.server, err) from err

    def gate(
        self,
        session: str,
        reply: str,
        *,
        agent: str = "",
        parent: Any = None,
        tools: Sequence[HasSpec | Mapping[str, Any]] | None = None,
    ) -> Gate:
        """Open the gate of one model response. With ``tools``, calls of other tools run where the server says."""
        return Gate(self, GateCore.make(self._requests, session, reply, agent, parent, tools))

    @overload
    def tool(self, function: Callable[P, R], /) -> Tool[P, R]: ...
    @overload
    def tool(
        self,
        /,
        *,
        name: str = "",
        description: str = "",
        input_schema: Mapping[str, Any] | None = None,
        read_only: bool = False,
        destructive: bool = False,
        idempotent: bool = False,
        open_world: bool = False,
    ) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
    def tool(
        self,
        function: Callable[P, R] | None = None,
        /,
        *,
        name: str = "",
        description: str = "",
        input_schema: Mapping[str, Any] | None = None,
        read_only: bool = False,
        destructive: bool = False,
        idempotent: bool = False,
        open_world: bool = False,
    ) -> Any:
        """Wrap a function as a gated tool; its type hints become the JSON Schema."""

        def wrap(inner: Callable[P, R]) -> Tool[P, R]:
            spec = ToolSpec(
                inner,
                name=name,
                description=description,
                input_schema=input_schema,
                read_only=read_only,
                destructive=destructive,
                idempotent=idempotent,
                open_world=open_world,
            )
            if spec.is_async:
                raise Invalid(
                    f"cannot wrap the async function {spec.name} with Client", code="invalid", hint="Use AsyncClient"
                )
            return Tool(self, inner, spec)

        return wrap if function is None else wrap(function)

    def requests(self, *, session: str = "", tool: str = "") -> list[Call]:
        """List the calls that wait for an approval."""
        return self._drive(self._core.list_requests(session, tool))

    def respond(
        self,
        call: Any,
        kind: Literal["approve", "reject", "respond", "skip", "delegate"],
        *,
        digest: str = "",
        input: str | Mapping[str, Any] | None = None,
        feedback: str = "",
        output: str | None = None,
        note: str = "",
        to: str = "",
        remember: Mapping[str, Any] | None = None,
    ) -> Call:
        """Respond to an approval request that ``requests`` listed; ``input`` approves other arguments."""
        return self._drive(self._core.respond(call, kind, digest, input, feedback, output, note, to, remember))

    def show(self, call: Any) -> ShowReply:
        """Show a call with its history. The call is given as itself or as (session, reply, call)."""
        return self._drive(self._core.show(call))

    def preview(self, name: str, input: str | Mapping[str, Any], *, session: str = "") -> PreviewedCall:
        """Ask what the current policy would decide about one call; nothing is proposed."""
        return self._drive(self._core.preview(name, input, session))

    def whoami(self) -> WhoamiReply:
        """Return who the token belongs to."""
        return self._drive(self._core.whoami())

    def info(self) -> InfoReply:
        """Return the engine that replies, and its policy."""
        return self._drive(self._core.info())

    def events(self, session: str, *, reply: str = "", after: str = "") -> Iterator[Event]:
        """Follow a session's events, across lost connections, starting after the id of an event."""
        return self._follow(self._core.events(session, reply), after)

    def calls_stream(self, *, session: str = "", tool: str = "") -> Iterator[Event]:
        """Follow the calls of the space: the open ones, ``ready``, then each change."""
        return self._follow(self._core.calls_stream(session, tool))

    def _follow(self, send: Send, after: str = "") -> Iterator[Event]:
        follower = Follower(self._requests, send, after)
        while True:
            problem: AskanceError | None = None
            try:
                with self._http.stream(**self._settings.stream(send, follower.headers())) as response:
                    if not follower.is_stream(response.status_code, response.headers):
                        response.read()
                        follower.refuse(read_response(response))
                    for chunk in response.iter_bytes():
                        yield from follower.feed(chunk)
            except httpx.RequestError as err:
                problem = make_unreachable(send.what, self._settings.server, err)
            except AskanceError as err:
                problem = err
            self._sleep(follower.ended(problem))

    def worker(
        self,
        tools: Sequence[HasSpec],
        *,
        engine_keys: str | os.PathLike[str] | Iterable[str] | None = None,
        subject: str = "",
        slots: int = 1,
        drain: float = 10.0,
    ) -> Worker:
        """Serve tools over /v1/work. ``engine_keys`` is the file engine.pub, or keys to trust."""
        from ._worker import Worker

        return Worker(
            self._settings.server,
            self._settings.token,
            self._requests.patience,
            tools,
            {"engine_keys": engine_keys, "subject": subject, "slots": slots, "drain": drain},
        )
