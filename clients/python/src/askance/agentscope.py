"""AgentScope 2.0: agents propose through askance, and events travel in both directions.

``Askance`` is a middleware: put it last in ``Agent(middlewares=[...])``. The agent's
own deny rules still count; askance takes the place of its questions.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection
from typing import Any

import jsonschema  # type: ignore[import-untyped, unused-ignore]
from agentscope.agent import Agent
from agentscope.event import (
    AgentEvent,
    ConfirmResult,
    CustomEvent,
    ExternalExecutionResultEvent,
    RequireExternalExecutionEvent,
    UserConfirmResultEvent,
    UserInterruptEvent,
)
from agentscope.message import Msg, TextBlock, ToolCallBlock, ToolCallState, ToolResultBlock, ToolResultState
from agentscope.middleware import MiddlewareBase
from agentscope.permission import PermissionBehavior, PermissionDecision
from agentscope.tool import ToolBase, ToolChunk, ToolResponse
from pydantic import TypeAdapter

from . import Allowed, Answered, AskanceError, AsyncClient, AsyncGate, Denied, Proposal
from ._adapter import Paused, decide, define_tool, report
from ._client import State
from ._core import segment

_EVENT: TypeAdapter[Any] = TypeAdapter(AgentEvent)
_REPORTED: dict[str, State] = {"success": "success", "interrupted": "interrupted"}


class Askance(MiddlewareBase):
    """Decides every tool call, runs it with the approved arguments, and reports its result.

    With ``pause`` an agent does not wait for people: it parks as it does for its own
    questions, its state can be stored, and ``resume`` continues it.
    """

    def __init__(self, client: AsyncClient, *, pause: bool = False, idempotent: Collection[str] = ()) -> None:
        self.client, self.pause, self.idempotent = client, pause, idempotent
        self._outcomes: dict[tuple[str, str, str], Allowed | Answered] = {}

    def gate(self, agent: Agent, call_id: str) -> AsyncGate:
        """Return the gate of the reply that contains the call; after a crash the agent has a new reply id."""
        return self.client.gate(agent.state.session_id, _find(agent, call_id)[0].id, agent=agent.name)

    async def on_check_permission(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., Any]
    ) -> PermissionDecision:
        own: PermissionDecision = await next_handler(**input_kwargs)
        if own.behavior == PermissionBehavior.DENY:
            return own
        call: ToolCallBlock = input_kwargs["tool_call"]
        tool: ToolBase = input_kwargs["tool"]
        gate = self.gate(agent, call.id)
        gate.core.declare(define_tool(call.name, tool.description, tool.input_schema, self.idempotent))
        try:
            proposal = gate.core.identify([Proposal(call.name, input_kwargs["tool_input"], call.id)])[0]
            outcome = await gate._drive(decide(gate.core, proposal, self.pause))
        except Paused:
            return PermissionDecision(PermissionBehavior.ASK, "askance waits for an approval", bypass_immune=True)
        except AskanceError as err:
            return PermissionDecision(PermissionBehavior.DENY, f"The tool did not run: {err}")
        if isinstance(outcome, Denied):
            return PermissionDecision(PermissionBehavior.DENY, outcome.text)
        if isinstance(outcome, Allowed):
            try:
                jsonschema.validate(outcome.input, tool.input_schema)  # valid arguments are not repaired later
            except jsonschema.ValidationError as err:
                text = f"The edited arguments do not fit the schema of {call.name}: {err.message}"
                await gate._drive(report(gate.core, outcome, text, "error"))
                return PermissionDecision(PermissionBehavior.DENY, text)
            _find(agent, call.id)[1].input = outcome.input_text  # a frontend runs what the block says
        self._outcomes[_key(agent, call.id)] = outcome
        return PermissionDecision(PermissionBehavior.ALLOW, "askance allowed the call")

    async def on_acting(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., AsyncGenerator[Any, None]]
    ) -> AsyncGenerator[Any, None]:
        call: ToolCallBlock = input_kwargs["tool_call"]
        outcome = self._outcomes.pop(_key(agent, call.id), None)
        if not isinstance(outcome, Allowed):
            state, text = ToolResultState("error"), "The tool did not run: askance did not decide the call"
            if outcome is not None:
                state, text = ToolResultState("success"), outcome.output
            chunk = ToolChunk(content=[TextBlock(text=text)], state=state)
            yield chunk
            yield ToolResponse(id=call.id).append_chunk(chunk)
            return
        gate = self.gate(agent, call.id)
        reported: State = "interrupted"
        output: list[dict[str, Any]] = []
        try:
            approved = call.model_copy(update={"name": outcome.name, "input": outcome.input_text})
            async for chunk in next_handler(tool_call=approved):
                if isinstance(chunk, ToolResponse):
                    reported = _REPORTED.get(chunk.state, "error")
                    output = [block.model_dump(mode="json") for block in chunk.content]
                yield chunk
        finally:
            await gate._drive(report(gate.core, outcome, output or "", reported))

    async def on_reply(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., AsyncGenerator[Any, None]]
    ) -> AsyncGenerator[Any, None]:
        """Reports what the agent's frontend ran, and delivers the results of askance's workers and people."""
        inputs = input_kwargs["inputs"]
        if isinstance(inputs, ExternalExecutionResultEvent):
            results = []
            for result in inputs.execution_results:
                self._outcomes.pop(_key(agent, result.id), None)
                output = result.model_dump(mode="json")["output"]
                reported = _REPORTED.get(result.state, "error")
                try:
                    await self.gate(agent, result.id).report(result.id, output, reported, name=result.name)
                except AskanceError as err:
                    if err.code not in ("invalid", "too_large"):
                        raise
                    text = f"The tool ran, but askance refused its result: {err}"  # so the call ended there
                    result = result.model_copy(update={"output": text, "state": ToolResultState("error")})
                results.append(result)
            inputs = inputs.model_copy(update={"execution_results": results})
        while True:
            answered: list[ToolResultBlock] = []
            async for item in next_handler(**{**input_kwargs, "inputs": inputs}):
                if isinstance(item, RequireExternalExecutionEvent):
                    known = [r for c in item.tool_calls if (r := self._take_answer(agent, c))]
                    answered += known
                    if len(known) == len(item.tool_calls):
                        continue  # nothing is left to run
                if not (answered and isinstance(item, Msg)):
                    yield item
            if not answered:
                return
            inputs = ExternalExecutionResultEvent(reply_id=agent.state.reply_id, execution_results=answered)

    def _take_answer(self, agent: Agent, call: ToolCallBlock) -> ToolResultBlock | None:
        if not isinstance(self._outcomes.get(_key(agent, call.id)), Answered):
            return None
        outcome = self._outcomes.pop(_key(agent, call.id))
        assert isinstance(outcome, Answered)
        return ToolResultBlock(id=call.id, name=call.name, output=outcome.output, state=ToolResultState("success"))


async def resume(agent: Agent) -> AsyncIterator[AgentEvent]:
    """Continue an agent that parked at calls of askance. It asks askance again, and parks again if necessary."""
    calls = [c for c in agent.state.get_awaiting_tool_calls(agent.name) if c.state == ToolCallState.ASKING]
    # The confirmation only wakes the agent up; the middleware decides.
    wake = UserConfirmResultEvent(
        reply_id=agent.state.reply_id, confirm_results=[ConfirmResult(confirmed=True, tool_call=c) for c in calls]
    )
    async for event in agent.reply_stream(wake):
        if not isinstance(event, Msg):
            yield event


async def events(client: AsyncClient, session: str) -> AsyncIterator[AgentEvent]:
    """Follow a session of askance as AgentScope's own events, for ``Msg.append_event`` and frontends."""
    async for item in client.events(session):
        parsed = _EVENT.validate_python(item.data)
        if not isinstance(parsed, CustomEvent):  # append_event refuses them
            yield parsed


async def send(
    client: AsyncClient, session: str, event: UserConfirmResultEvent | ExternalExecutionResultEvent | UserInterruptEvent
) -> None:
    """Send askance the response of an AgentScope frontend: a confirmation, results, or an interrupt."""
    path = f"/agentscope/sessions/{segment(session, 'session id')}/events"
    await client._drive(client._requests.post("send the event", path, event.model_dump(mode="json")))


def _find(agent: Agent, call_id: str) -> tuple[Msg, ToolCallBlock]:
    for msg in reversed(agent.state.context):
        for block in msg.get_content_blocks("tool_call"):
            if block.id == call_id:
                return msg, block
    raise LookupError(f"the agent {agent.name} has no call {call_id}")


def _key(agent: Agent, call_id: str) -> tuple[str, str, str]:
    return agent.state.session_id, _find(agent, call_id)[0].id, call_id
