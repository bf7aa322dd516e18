"""LangChain and LangGraph: a middleware that decides every tool call and runs it with the approved arguments.

Put it last in ``create_agent(middleware=[...])``: the last middleware is the innermost,
and no other changes the arguments after the decision. A graph of your own takes it as
``ToolNode(tools, wrap_tool_call=m.wrap_tool_call, awrap_tool_call=m.awrap_tool_call)``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command, Interrupt, interrupt

from . import AsyncClient, Client, Proposal
from ._adapter import Paused, Ran, define_tool, derive_reply, execute
from ._core import GateCore, Op

Result = ToolMessage | Command[Any]


class AskanceMiddleware(AgentMiddleware[Any, Any, Any]):
    """Decides every tool call, runs it with the approved arguments, and reports its result.

    A synchronous run needs ``client``, an asynchronous one ``async_client``. The session is
    the ``thread_id``, or the conversation's first message in a run without a checkpointer.

    With ``pause`` the graph is interrupted while a person decides; ``resume`` continues it.
    The tools in ``idempotent`` run again after a crash; without it an operator resolves the call.
    """

    def __init__(
        self,
        client: Client | None = None,
        async_client: AsyncClient | None = None,
        *,
        agent: str = "",
        pause: bool = False,
        idempotent: Collection[str] = (),
    ) -> None:
        super().__init__()
        self.client, self.async_client = client, async_client
        self.agent, self.pause, self.idempotent = agent, pause, idempotent

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Result]) -> Result:
        if self.client is None:
            raise TypeError("AskanceMiddleware needs client=askance.Client(...) for a synchronous run")
        gate = self.client.gate(*_name_reply(request), agent=self.agent, tools=[self._define(request)])
        return gate._drive(self._execute(gate.core, request, lambda args: handler(_replace_args(request, args))))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Result]]
    ) -> Result:
        if self.async_client is None:
            raise TypeError("AskanceMiddleware needs async_client=askance.AsyncClient(...) for an asynchronous run")
        gate = self.async_client.gate(*_name_reply(request), agent=self.agent, tools=[self._define(request)])

        async def run(args: Any) -> Result:
            return await handler(_replace_args(request, args))

        return await gate._drive(self._execute(gate.core, request, run))

    def _define(self, request: ToolCallRequest) -> dict[str, Any]:
        known = convert_to_openai_tool(request.tool)["function"] if request.tool else {}
        name, schema = request.tool_call["name"], known.get("parameters")
        return define_tool(name, known.get("description"), schema, self.idempotent)

    def _execute(self, core: GateCore, request: ToolCallRequest, run: Callable[[Any], Any]) -> Op[Result]:
        call = request.tool_call
        proposal = core.identify([Proposal(call["name"], call["args"], call["id"] or "")])[0]
        while True:
            try:
                done = yield from execute(
                    core,
                    proposal,
                    run,
                    lambda result: _read_result(result, call["id"]),
                    pause=self.pause,
                    passing=(GraphBubbleUp,),
                )
                break
            except Paused:
                # The value that resumes the graph decides nothing, because the loop asks askance again.
                where = {"session_id": core.session, "reply_id": core.reply, "tool_call_id": proposal.id}
                interrupt({"askance": where, "tool": call["name"], "args": call["args"]})
        if isinstance(done, Ran):
            result: Result = done.value
            return result
        status = "success" if done.success else "error"
        return ToolMessage(done.text, tool_call_id=call["id"], name=call["name"], status=status)


def resume(interrupts: Iterable[Interrupt]) -> Command[Any]:
    """Continue a paused graph: ``agent.invoke(resume(state.interrupts), config)``.

    It carries no decision: the middleware asks askance again, and pauses again if need be.
    """
    return Command(resume={i.id: None for i in interrupts if isinstance(i.value, dict) and "askance" in i.value})


def _name_reply(request: ToolCallRequest) -> tuple[str, str]:
    """Return session and reply. A node that runs again from its start gets the same ones."""
    state, runtime = request.state, request.runtime
    messages: list[AnyMessage] = state if isinstance(state, list) else _get(state, "messages")
    said = next((m for m in reversed(messages) if isinstance(m, AIMessage) and m.tool_calls), None)
    ids = [c["id"] or "" for c in said.tool_calls] if said else [request.tool_call["id"] or ""]
    reply = (said.id if said else None) or derive_reply(ids)
    thread = runtime.config.get("configurable", {}).get("thread_id") if runtime else None
    return str(thread or messages[0].id or reply), reply


def _replace_args(request: ToolCallRequest, args: Any) -> ToolCallRequest:
    return request.override(tool_call={**request.tool_call, "args": args})


def _get(state: Any, name: str) -> Any:
    return state.get(name, []) if isinstance(state, dict) else getattr(state, name, [])


def _read_result(result: Result, call_id: str | None) -> tuple[str, Any]:
    """Return state and text of a tool's return value; a Command contains its message in its update."""
    messages = [result]
    if isinstance(result, Command):
        update = result.update if isinstance(result.update, dict) else {}
        messages = [m for m in update.get("messages", []) if getattr(m, "tool_call_id", None) == call_id]
    text = "\n".join(m.text for m in messages if isinstance(m, ToolMessage))
    failed = any(isinstance(m, ToolMessage) and m.status == "error" for m in messages)
    return ("error" if failed else "success"), text
