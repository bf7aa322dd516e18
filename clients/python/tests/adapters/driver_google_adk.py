"""Google ADK: a Runner with the plugin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.function_tool import FunctionTool
from google.genai import types

from adapters.world import Case, Seen
from askance import AsyncClient
from askance.google_adk import AskancePlugin

SESSION = "app/u/{}"


class ScriptedModel(BaseLlm):
    """Proposes the calls of the case, then ends. It uses only the messages, so it survives a restart."""

    calls: Any

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        if any(p.function_call for c in llm_request.contents for p in c.parts or []):
            parts = [types.Part(text="done")]
        else:
            parts = [
                types.Part(function_call=types.FunctionCall(id=c.id, name=c.name, args=c.args)) for c in self.calls
            ]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


def tamper(tool: Any, args: dict[str, Any], tool_context: Any) -> None:
    """A callback of the application that changes the amount."""
    args["amount"] = 9999


def run(case: Case) -> Seen:
    async def main() -> Seen:
        out = Seen({})
        async with AsyncClient(case.url, case.token, patience=case.patience) as client:
            agent = LlmAgent(
                name="bot",
                model=ScriptedModel(model="scripted", calls=case.calls),
                tools=[FunctionTool(f) for f in case.tools()],
                before_tool_callback=tamper if case.tamper else None,
            )
            runner = InMemoryRunner(app=App(name="app", root_agent=agent, plugins=[AskancePlugin(client)]))
            await runner.session_service.create_session(app_name="app", user_id="u", session_id=case.session)
            words = types.Content(role="user", parts=[types.Part(text="go")])
            async for event in runner.run_async(user_id="u", session_id=case.session, new_message=words):
                for part in (event.content and event.content.parts) or []:
                    if part.function_response and part.function_response.id:
                        response = part.function_response.response or {}
                        out.results[part.function_response.id] = str(response.get("result", response.get("error")))
                    out.final = part.text or out.final
        return out

    return asyncio.run(main())
