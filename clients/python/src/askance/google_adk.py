"""Google ADK: a plugin that decides every tool call of a runner and runs it with the approved arguments."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from google.adk.plugins import BasePlugin
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from pydantic_core import to_jsonable_python

from . import AsyncClient, Proposal
from ._adapter import NotRun, define_tool, derive_reply, execute

_GATED = "_askance_gated"


class AskancePlugin(BasePlugin):
    """Decides every tool call of the runner's agents, sub-agents included.

    The callback before a tool is too early: callbacks of the agent still change the
    arguments after it. The plugin therefore wraps the tool's run, which comes last.
    """

    def __init__(self, client: AsyncClient, *, name: str = "askance", idempotent: Collection[str] = ()) -> None:
        super().__init__(name=name)
        self.client, self.idempotent = client, idempotent

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        if tool_context.get_invocation_context().live_request_queue is not None:
            return {"error": f"The tool {tool.name} did not run: askance cannot gate live sessions."}
        gate = getattr(tool, _GATED, None)
        if gate is None:
            self._wrap(tool)
        elif gate is not self:
            return {"error": f"The tool {tool.name} did not run: it belongs to another AskancePlugin."}
        return None

    def _wrap(self, tool: BaseTool) -> None:
        inner, declaration = tool.run_async, tool._get_declaration()
        schema = declaration.parameters_json_schema if declaration else None

        async def run_async(*, args: dict[str, Any], tool_context: ToolContext) -> Any:
            session = tool_context.session
            call_id = tool_context.function_call_id or ""
            gate = self.client.gate(
                "/".join([session.app_name, session.user_id, session.id]),
                derive_reply([call_id]),  # an invocation that starts again has another id
                agent=tool_context.agent_name,
                tools=[define_tool(tool.name, tool.description, schema, self.idempotent)],
            )

            async def run(approved: dict[str, Any]) -> Any:
                return await inner(args=approved, tool_context=tool_context)

            proposal = gate.core.identify([Proposal(tool.name, to_jsonable_python(args), call_id)])[0]
            done = await gate._drive(execute(gate.core, proposal, run, _read_response))
            if isinstance(done, NotRun):
                return {"result" if done.success else "error": done.text}
            return done.value

        tool.run_async = run_async  # type: ignore[method-assign]
        setattr(tool, _GATED, self)


def _read_response(value: Any) -> tuple[str, Any]:
    """Return state and output of a response; ADK's tools report errors as a dict with error."""
    failed = isinstance(value, dict) and bool(value.get("error"))
    output = value if isinstance(value, str) else to_jsonable_python(value, serialize_unknown=True)
    return ("error" if failed else "success"), output
