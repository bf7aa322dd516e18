"""OpenAI Agents SDK: an Agent with gated function tools."""

from __future__ import annotations

import asyncio
from typing import Any

from agents import Agent, RunConfig, Runner, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call

from adapters.world import Case, Seen
from askance import AsyncClient
from askance.openai_agents import tool

set_tracing_disabled(True)


def scripted_model(case: Case) -> ScriptedModel:
    calls = [function_call(c.name, c.args, call_id=c.id) for c in case.calls]
    return ScriptedModel([calls, [assistant_message("done")]])


def seen(items: list[Any], final: str) -> Seen:
    outputs = [i for i in items if isinstance(i, dict) and i.get("type") == "function_call_output"]
    return Seen({i["call_id"]: str(i["output"]) for i in outputs}, final)


def run(case: Case) -> Seen:
    async def main() -> Seen:
        async with AsyncClient(case.url, case.token, patience=case.patience) as client:
            tools = [tool(client, f) for f in case.tools()]
            agent = Agent("bot", model=scripted_model(case), tools=list(tools))
            out = await Runner.run(agent, "go", run_config=RunConfig(group_id=case.session))
            return seen(out.to_input_list(), out.final_output)

    return asyncio.run(main())
