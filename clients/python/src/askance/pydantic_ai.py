"""Pydantic AI: a toolset that decides every call of the tools in it, and a capability that answers approvals."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ToolFailed
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.tools import (
    AgentDepsT,
    DeferredToolRequests,
    DeferredToolResults,
    RunContext,
    ToolApproved,
    ToolDenied,
)
from pydantic_ai.toolsets import ToolsetTool, WrapperToolset
from pydantic_core import to_jsonable_python

from . import Allowed, Answered, AskanceError, AsyncClient, AsyncGate, Proposal
from ._adapter import Paused, Ran, decide, define_tool, derive_reply, execute, has_same_content, is_same, run_allowed


@dataclass
class AskanceToolset(WrapperToolset[AgentDepsT]):
    """Decides every call of the wrapped toolset, runs it with the approved arguments, and reports its result.

    With ``pause`` the run ends with ``DeferredToolRequests`` while a person decides. Resume
    it with any approval of the call: the toolset asks askance again and trusts nothing else.
    """

    client: AsyncClient
    pause: bool = False
    idempotent: Collection[str] = ()

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> Any:
        proposed = to_jsonable_python(tool_args)
        known = tool.tool_def
        gate = _open_gate(self.client, ctx)
        gate.core.declare(define_tool(name, known.description, known.parameters_json_schema, self.idempotent))

        async def run(approved: dict[str, Any]) -> Any:
            args = tool_args
            # An edit must pass the tool's own checks, like the model's arguments.
            if not is_same(approved, to_jsonable_python(tool_args)):
                args = tool.args_validator.validate_python(approved, context=ctx.validation_context)
                if not has_same_content(approved, checked := to_jsonable_python(args)):
                    raise ToolFailed(
                        f"The edited arguments cannot run: the validation of {name} changes them to {checked}"
                    )
                if tool.args_validator_func is not None:
                    valid = tool.args_validator_func(ctx, **args)
                    if inspect.isawaitable(valid):
                        await valid
            return await self.wrapped.call_tool(name, args, ctx, tool)

        proposal = Proposal(name, proposed, ctx.tool_call_id or "")
        passing = (ApprovalRequired, CallDeferred)
        try:
            done = await gate._drive(execute(gate.core, proposal, run, _read_value, pause=self.pause, passing=passing))
        except Paused:
            where = {"session_id": gate.core.session, "reply_id": gate.core.reply}
            raise ApprovalRequired(metadata={"askance": where}) from None
        if isinstance(done, Ran):
            return done.value
        if not done.success:
            raise ToolFailed(done.text)
        return done.text


@dataclass
class AskanceApprovals(AbstractCapability[AgentDepsT]):
    """Answers approvals of tools with ``requires_approval=True`` during the run, and reports their results."""

    client: AsyncClient
    _allowed: dict[tuple[str | None, str], tuple[AsyncGate, Allowed]] = field(default_factory=dict, repr=False)

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[AgentDepsT], *, requests: DeferredToolRequests
    ) -> DeferredToolResults:
        gate = _open_gate(self.client, ctx)
        answers = await asyncio.gather(*(self._answer(gate, ctx, part) for part in requests.approvals))
        return DeferredToolResults(approvals=dict(zip((p.tool_call_id for p in requests.approvals), answers)))

    async def _answer(
        self, gate: AsyncGate, ctx: RunContext[AgentDepsT], part: ToolCallPart
    ) -> ToolApproved | ToolDenied:
        proposed = part.args_as_dict()
        proposal = Proposal(part.tool_name, proposed, part.tool_call_id)
        try:
            outcome = await gate._drive(decide(gate.core, gate.core.identify([proposal])[0]))
        except AskanceError as err:
            return ToolDenied(f"The tool did not run: {err}")
        if isinstance(outcome, Allowed):
            self._allowed[ctx.run_id, part.tool_call_id] = gate, outcome
            return ToolApproved(override_args=None if is_same(outcome.input, proposed) else outcome.input)
        return ToolDenied(outcome.output if isinstance(outcome, Answered) else outcome.text)

    async def wrap_tool_execute(
        self, ctx: RunContext[AgentDepsT], *, call: ToolCallPart, args: dict[str, Any], handler: Any, **kwargs: Any
    ) -> Any:
        gate, allowed = self._allowed.pop((ctx.run_id, call.tool_call_id), (None, None))
        if gate is None or allowed is None:
            return await handler(args)

        async def run(approved: Any) -> Any:
            return await handler(args)

        return await gate._drive(run_allowed(gate.core, allowed, run, _read_value))


def _open_gate(client: AsyncClient, ctx: RunContext[Any]) -> AsyncGate:
    """Open the gate of the model response in ctx. A resumed run gets the same gate."""
    said = next((m for m in reversed(ctx.messages) if isinstance(m, ModelResponse)), None)
    calls = [p.tool_call_id for p in said.parts if p.part_kind == "tool-call"] if said else [ctx.tool_call_id or ""]
    reply = derive_reply(calls)
    agent = (ctx.agent.name if ctx.agent else None) or ""
    return client.gate(ctx.conversation_id or reply, reply, agent=agent)


def _read_value(value: Any) -> tuple[str, Any]:
    return "success", value if isinstance(value, str) else to_jsonable_python(value, serialize_unknown=True)
