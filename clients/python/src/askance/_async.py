"""The asynchronous client: the same core as the synchronous one, driven by asyncio."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, Protocol, TypeVar, Union, cast, overload

import httpx

from ._calls import ClientCore
from ._client import HasSpec, State, finish_call, name_call, name_tool
from ._core import Completed, GateCore, Invoke, Op, Requests, Send, Sleep, ToolResult
from ._errors import AskanceError, Invalid
from ._outcomes import Allowed, Answered, Denied, Outcome, Proposal
from ._schema import is_async
from ._settings import LIMITS, Settings, make_unreachable, read_response
from ._stream import Event, Follower
from ._tool import ToolSpec, copy_name
from .types import Call, InfoReply, PreviewedCall, PreviewReply, ShowReply, WhoamiReply

if TYPE_CHECKING:
    from ._worker import AsyncWorker

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")


class AsyncRunnableCall(Allowed):
    """An allowed call of an asynchronous gate."""

    _gate: AsyncGate

    @overload
    async def run(self, function: Callable[[Any], Coroutine[Any, Any, T]]) -> T: ...
    @overload
    async def run(self, function: Callable[[Any], T]) -> T: ...
    async def run(self, function: Callable[[Any], Any]) -> Any:
        """Run ``function(input)`` and report it: an exception as error, a cancellation as interrupted."""
        return await self._gate._drive(self._gate.core.run(self, function))

    async def report(self, output: object, state: State = "success") -> None:
        """Report a run that you started yourself with ``input``."""
        await self._gate.report(self, output, state)


AsyncOutcome = Union[AsyncRunnableCall, Denied, Answered]


class AsyncGate:
    """The calls of one model response in one session."""

    def __init__(self, client: AsyncClient, core: GateCore) -> None:
        self.client, self.core, self._drive = client, core, client._drive
        self._tokens: list[contextvars.Token[AsyncGate | None]] = []

    async def __aenter__(self) -> AsyncGate:
        self._tokens.append(_current.set(self))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        _current.reset(self._tokens.pop())

    async def call(
        self, name: str, input: str | Mapping[str, Any], *, id: str = "", timeout: float | None = None
    ) -> AsyncOutcome:
        """Propose one call and wait until it is decided.

        After ``timeout`` seconds raise Unavailable, with code timeout if the call still waits.
        """
        return self._bind((await self._drive(self.core.decide([Proposal(name, input, id)], timeout)))[0])

    async def calls(
        self, proposals: Sequence[Proposal], *, timeout: float | None = None
    ) -> AsyncIterator[AsyncOutcome]:
        """Propose the calls of one model response together; yield each outcome as soon as it is decided.

        Run and report each before you take the next, or in a task: a later call can wait for the result of an
        earlier one. ``timeout`` is for all of them together. The time that you use between two outcomes counts for
        the decisions, and not for the request that begins the next call.
        """
        clock, deadline = self.core.requests.clock, self.core.requests.deadline(timeout)
        calls = await self._drive(self.core.start(proposals, deadline))
        waiting = {asyncio.ensure_future(self._drive(self.core.settle(p, c, timeout, deadline))) for p, c in calls}
        try:
            while waiting:
                decided, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for settled in decided:
                    outcome = await self._drive(self.core.claim(settled.result(), deadline))
                    given = clock()
                    yield self._bind(outcome)
                    deadline = deadline and deadline + clock() - given
        finally:
            for settled in waiting:
                settled.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    def _bind(self, outcome: Outcome) -> AsyncOutcome:
        if not isinstance(outcome, Allowed):
            return outcome
        out = AsyncRunnableCall(outcome.call, outcome.input, outcome.input_text)
        object.__setattr__(out, "_gate", self)
        return out

    async def propose(self, proposals: Sequence[Proposal]) -> list[Call]:
        """Propose calls and return their current state immediately. It does not permit anything to run."""
        return await self._drive(self.core.propose(self.core.identify(proposals)))

    async def wait(self, *ids: str, timeout: float | None = None) -> list[Call]:
        """Wait until the calls (without ids, all of the reply) are finished or this runtime can run them."""
        return await self._drive(self.core.wait(ids, timeout))

    async def run(
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
        return await self._drive(self.core.execute(proposal, function, timeout))

    async def report(self, call: Allowed | str, output: object, state: State = "success", *, name: str = "") -> Call:
        """Report the result of a call that this process ran; ``call`` is the outcome or, with ``name``, its id."""
        return await self._drive(self.core.report(*name_call(call, name), output, state))

    async def interrupt(self, reason: str = "") -> list[Call]:
        """End every open call of the reply."""
        return await self._drive(self.core.interrupt(reason))

    async def preview(self, proposals: Sequence[Proposal]) -> PreviewReply:
        """Ask what the current policy would decide; nothing is proposed."""
        return await self._drive(self.core.preview(self.core.identify(proposals)))


_current: contextvars.ContextVar[AsyncGate | None] = contextvars.ContextVar("askance_async_gate", default=None)


class AsyncTool(Generic[P, R]):
    """A gated function. Each call is proposed in the current gate and runs only if it is allowed."""

    def __init__(self, client: AsyncClient, function: Callable[P, Awaitable[R] | R], spec: ToolSpec) -> None:
        self.client, self.spec = client, spec
        copy_name(self, function)

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        gate = _current.get()
        if gate is None:
            raise Invalid(
                f"cannot call {self.spec.name}: there is no gate",
                code="invalid",
                hint="Call it within `async with client.gate(session, reply):`",
            )
        return cast(R, finish_call(await gate.run(self, self.spec.write_input(args, kwargs))))


class _Wrap(Protocol):
    """The result of AsyncClient.tool with options. It wraps async and other functions."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTool[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> AsyncTool[P, R]: ...


class AsyncClient:
    """A connection to askance for asyncio. Settings default to ASKANCE_URL and ASKANCE_TOKEN.

    ``patience`` is how many seconds a request is repeated while the server does not answer.
    A function that is not async runs in a thread.
    """

    def __init__(self, url: str | None = None, token: str | None = None, *, patience: float = 30.0) -> None:
        self._settings = Settings.read(url, token)
        # A connection works only in its event loop, and frameworks run each synchronous run in a loop of its own.
        self._connections: dict[asyncio.AbstractEventLoop, httpx.AsyncClient] = {}
        self._requests = Requests(patience)
        self._core = ClientCore(self._requests)
        self._sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections of this event loop."""
        if (http := self._connections.pop(asyncio.get_running_loop(), None)) is not None:
            await http.aclose()

    @property
    def _http(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        if (http := self._connections.get(loop)) is None:
            socket = self._settings.socket
            transport = httpx.AsyncHTTPTransport(uds=socket, limits=LIMITS) if socket else None
            self._connections = {k: v for k, v in list(self._connections.items()) if not k.is_closed()}
            http = httpx.AsyncClient(follow_redirects=False, transport=transport, limits=LIMITS)
            self._connections[loop] = http
        return http

    async def _drive(self, op: Op[T]) -> T:
        with closing(op):
            try:
                effect = op.send(None)
                while True:
                    try:
                        value: Any = await self._perform(effect)
                    except BaseException as err:
                        effect = op.throw(err)
                    else:
                        effect = op.send(value)
            except StopIteration as end:
                return cast(T, end.value)

    async def _perform(self, effect: Send | Sleep | Invoke) -> Any:
        if isinstance(effect, Sleep):
            return await self._sleep(effect.seconds)
        if isinstance(effect, Invoke):
            if is_async(effect.function):
                return await effect.function(*effect.arguments)
            value = await run_in_thread(effect.function, *effect.arguments)
            return await value if inspect.isawaitable(value) else value
        try:
            return read_response(await self._http.request(**self._settings.arguments(effect)))
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
    ) -> AsyncGate:
        """Open the gate of one model response. With ``tools``, calls of other tools run where the server says."""
        return AsyncGate(self, GateCore.make(self._requests, session, reply, agent, parent, tools))

    @overload
    def tool(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTool[P, R]: ...
    @overload
    def tool(self, function: Callable[P, R], /) -> AsyncTool[P, R]: ...
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
    ) -> _Wrap: ...
    def tool(
        self,
        function: Callable[..., Any] | None = None,
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

        def wrap(inner: Callable[..., Any]) -> AsyncTool[..., Any]:
            return AsyncTool(
                self,
                inner,
                ToolSpec(
                    inner,
                    name=name,
                    description=description,
                    input_schema=input_schema,
                    read_only=read_only,
                    destructive=destructive,
                    idempotent=idempotent,
                    open_world=open_world,
                ),
            )

        return wrap if function is None else wrap(function)

    async def requests(self, *, session: str = "", tool: str = "") -> list[Call]:
        """List the calls that wait for an approval."""
        return await self._drive(self._core.list_requests(session, tool))

    async def respond(
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
        return await self._drive(self._core.respond(call, kind, digest, input, feedback, output, note, to, remember))

    async def show(self, call: Any) -> ShowReply:
        """Show a call with its history. The call is given as itself or as (session, reply, call)."""
        return await self._drive(self._core.show(call))

    async def preview(self, name: str, input: str | Mapping[str, Any], *, session: str = "") -> PreviewedCall:
        """Ask what the current policy would decide about one call; nothing is proposed."""
        return await self._drive(self._core.preview(name, input, session))

    async def whoami(self) -> WhoamiReply:
        """Return who the token belongs to."""
        return await self._drive(self._core.whoami())

    async def info(self) -> InfoReply:
        """Return the engine that replies, and its policy."""
        return await self._drive(self._core.info())

    def events(self, session: str, *, reply: str = "", after: str = "") -> AsyncIterator[Event]:
        """Follow a session's events, across lost connections, starting after the id of an event."""
        return self._follow(self._core.events(session, reply), after)

    def calls_stream(self, *, session: str = "", tool: str = "") -> AsyncIterator[Event]:
        """Follow the calls of the space: the open ones, ``ready``, then each change."""
        return self._follow(self._core.calls_stream(session, tool))

    async def _follow(self, send: Send, after: str = "") -> AsyncIterator[Event]:
        follower = Follower(self._requests, send, after)
        while True:
            problem: AskanceError | None = None
            try:
                async with self._http.stream(**self._settings.stream(send, follower.headers())) as response:
                    if not follower.is_stream(response.status_code, response.headers):
                        await response.aread()
                        follower.refuse(read_response(response))
                    async for chunk in response.aiter_bytes():
                        for event in follower.feed(chunk):
                            yield event
            except httpx.RequestError as err:
                problem = make_unreachable(send.what, self._settings.server, err)
            except AskanceError as err:
                problem = err
            await self._sleep(follower.ended(problem))

    def worker(
        self,
        tools: Sequence[HasSpec],
        *,
        engine_keys: str | os.PathLike[str] | Iterable[str] | None = None,
        subject: str = "",
        slots: int = 1,
        drain: float = 10.0,
    ) -> AsyncWorker:
        """Serve tools over /v1/work. ``engine_keys`` is the file engine.pub, or keys to trust."""
        from ._worker import AsyncWorker

        return AsyncWorker(self, tools, engine_keys=engine_keys, subject=subject, slots=slots, drain=drain)


async def run_in_thread(function: Callable[..., Any], *arguments: Any, pool: Executor | None = None) -> Any:
    """Run a function in a thread and wait for its end, even if the task is cancelled, because it cannot be stopped."""

    def call() -> Any:
        try:
            return function(*arguments)
        except StopIteration as err:  # no future can have it
            raise RuntimeError("the function raised StopIteration") from err

    running = asyncio.get_running_loop().run_in_executor(pool, contextvars.copy_context().run, call)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError as err:
        if not running.cancelled():
            await asyncio.wait([running])
            if running.exception() is None:
                err.completed = Completed(running.result())  # type: ignore[attr-defined]
        raise
