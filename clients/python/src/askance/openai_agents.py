"""OpenAI Agents SDK: function tools that askance decides and that run with the approved arguments."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Callable
from typing import Any

from agents import FunctionTool, default_tool_error_function, function_tool
from agents.tool_context import ToolContext
from pydantic_core import to_jsonable_python

from . import AsyncClient, Proposal
from ._adapter import NotRun, define_tool, execute, is_same

Session = str | Callable[[ToolContext[Any]], str]


def tool(
    client: AsyncClient,
    function: Callable[..., Any] | FunctionTool,
    *,
    session: Session = "",
    idempotent: bool = False,
    failure_error_function: Callable[[ToolContext[Any], Exception], Any] | None = default_tool_error_function,
    **options: Any,
) -> FunctionTool:
    """Make a gated tool of a function (with the options of ``function_tool``), or gate a tool that exists.

    The session is a name, a function of the tool's context, or the run's ``group_id``; without
    any of them each call is a session. A tool that formats its own errors reports them as
    results: give the function instead.
    """
    inner = function
    if not isinstance(inner, FunctionTool):
        inner = function_tool(inner, failure_error_function=None, **options)
    invoke, always = inner.on_invoke_tool, {inner.name} if idempotent else set[str]()

    async def on_invoke_tool(ctx: ToolContext[Any], arguments: str) -> Any:
        gate = client.gate(
            _name_session(ctx, session),
            ctx.tool_call_id,  # the SDK does not say which response has the call
            agent=ctx.agent.name if ctx.agent else "",
            tools=[define_tool(inner.name, inner.description, inner.params_json_schema, always)],
        )

        async def run(approved: Any) -> Any:
            if is_same(approved, _parse(arguments)):
                return await invoke(ctx, arguments)
            ctx.tool_arguments = json.dumps(approved, ensure_ascii=False)  # a tool can read them there, too
            if ctx.tool_call is not None:
                ctx.tool_call = ctx.tool_call.model_copy(update={"arguments": ctx.tool_arguments})
            return await invoke(ctx, ctx.tool_arguments)

        try:
            proposal = Proposal(inner.name, arguments or "{}", ctx.tool_call_id)
            done = await gate._drive(execute(gate.core, proposal, run, _read_output))
        except Exception as err:
            if isinstance(function, FunctionTool) or failure_error_function is None:
                raise
            text = failure_error_function(ctx, err)
            return await text if inspect.isawaitable(text) else text
        return done.text if isinstance(done, NotRun) else done.value

    return dataclasses.replace(inner, on_invoke_tool=on_invoke_tool)


def _parse(arguments: str) -> Any:
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return None


def _name_session(ctx: ToolContext[Any], session: Session) -> str:
    named = session(ctx) if callable(session) else session
    return named or (ctx.run_config.group_id if ctx.run_config else None) or ctx.tool_call_id


def _read_output(value: Any) -> tuple[str, Any]:
    return "success", value if isinstance(value, str) else to_jsonable_python(value, serialize_unknown=True)
