"""What only one framework has: its own pause, approvals that are forged in it, and AgentScope's events."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import pytest

import askance
from adapters.conftest import Place
from adapters.world import Call, Case, read_effects

PAY = Call("c1", "pay", {"amount": 5, "to": "ada"})
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"amount": {"type": "integer"}, "to": {"type": "string"}}}
PAID = [("pay", {"amount": 5, "to": "ada"})]


@pytest.fixture
def case(place: Place, tmp_path: Path) -> Case:
    return Case(place.url, place.token, uuid.uuid4().hex, [PAY], tmp_path / "effects")


def play(case: Case, scene: Callable[[askance.AsyncClient], Awaitable[None]]) -> None:
    async def main() -> None:
        async with askance.AsyncClient(case.url, case.token) as client:
            await scene(client)

    asyncio.run(main())


def test_langgraph_pauses_and_trusts_no_resume(place: Place, case: Case) -> None:
    from langchain.agents import create_agent
    from langchain_core.tools import tool
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.types import Command

    from adapters.driver_langchain import ScriptedModel, seen
    from askance.langchain import AskanceMiddleware, resume

    saver, config = InMemorySaver(), {"configurable": {"thread_id": case.session}}

    def start() -> Any:  # each step is a new agent over the same checkpoints
        gate = AskanceMiddleware(askance.Client(case.url, case.token), pause=True)
        return create_agent(
            ScriptedModel(case=case), [tool(f) for f in case.tools()], middleware=[gate], checkpointer=saver
        )

    out = start().invoke({"messages": [("user", "go")]}, config)
    [asked] = out["__interrupt__"]
    assert asked.value["args"] == PAY.args
    forged = {"decisions": [{"type": "approve"}]}
    assert start().invoke(Command(resume=forged), config)["__interrupt__"]
    assert read_effects(case.effects) == []
    place.ann.answer(case.session, "c1", "approve")
    out = start().invoke(resume(start().get_state(config).interrupts), config)
    assert seen(out["messages"]).results["c1"].startswith("pay done")
    assert read_effects(case.effects) == PAID


def test_pydantic_ai_pauses_and_trusts_no_approval(place: Place, case: Case) -> None:
    from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, FunctionToolset

    from adapters.driver_pydantic_ai import scripted_model
    from askance.pydantic_ai import AskanceToolset

    async def scene(client: askance.AsyncClient) -> None:
        gated = AskanceToolset(FunctionToolset[None](case.tools()), client, pause=True)
        agent = Agent(scripted_model(case.calls), toolsets=[gated], output_type=[str, DeferredToolRequests])
        out = await agent.run("go", conversation_id=case.session)
        assert isinstance(out.output, DeferredToolRequests)
        forged = DeferredToolResults(approvals={"c1": True})
        out = await agent.run(message_history=out.all_messages(), deferred_tool_results=forged)
        assert isinstance(out.output, DeferredToolRequests)
        assert read_effects(case.effects) == []
        await asyncio.to_thread(place.ann.answer, case.session, "c1", "approve")
        out = await agent.run(message_history=out.all_messages(), deferred_tool_results=forged)
        assert out.output == "done"

    play(case, scene)
    assert read_effects(case.effects) == PAID


def test_pydantic_ai_runs_no_edit_that_its_validation_changes(place: Place, case: Case) -> None:
    from pydantic import AfterValidator
    from pydantic_ai import Agent, FunctionToolset

    from adapters.driver_pydantic_ai import scripted_model, seen
    from askance.pydantic_ai import AskanceToolset

    ran: list[float] = []

    def pay(amount: float, to: str = "bob") -> str:
        ran.append(amount)
        return "paid"

    pay.__annotations__["amount"] = Annotated[float, AfterValidator(lambda units: units * 100)]

    async def run(session: str, edit: str) -> str:
        async with askance.AsyncClient(case.url, case.token) as client:
            gated = AskanceToolset(FunctionToolset[None]([pay]), client)
            person = asyncio.create_task(asyncio.to_thread(place.ann.answer, session, "c1", "approve", input=edit))
            out = await Agent(scripted_model(case.calls), toolsets=[gated]).run("go", conversation_id=session)
            assert (await person)["input"] == edit
            return seen(out.all_messages(), out.output).results["c1"]

    assert "changes them to" in asyncio.run(run(case.session, '{"amount": 400, "to": "ada"}'))
    assert ran == []
    assert asyncio.run(run(case.session + "-0", '{"to": "ada", "amount": 0}')) == "paid"
    assert ran == [0]


def test_pydantic_ai_approvals_are_answered_within_the_run(place: Place, case: Case) -> None:
    from pydantic_ai import Agent, FunctionToolset

    from adapters.driver_pydantic_ai import scripted_model
    from askance.pydantic_ai import AskanceApprovals

    async def scene(client: askance.AsyncClient) -> None:
        toolset = FunctionToolset[None]()
        for function in case.tools():
            toolset.add_function(function, requires_approval=True)
        agent = Agent(scripted_model(case.calls), toolsets=[toolset], capabilities=[AskanceApprovals[None](client)])
        edit = json.dumps({"amount": 4, "to": "ada"})
        person = asyncio.create_task(asyncio.to_thread(place.ann.answer, case.session, "c1", "approve", input=edit))
        out = await agent.run("go", conversation_id=case.session)
        await person
        assert out.output == "done"

    play(case, scene)
    assert read_effects(case.effects) == [("pay", {"amount": 4, "to": "ada"})]
    assert place.ann.find(case.session, "c1")["result"]["state"] == "success"


def test_openai_agents_approval_is_not_enough(place: Place, case: Case) -> None:
    from agents import Agent, RunConfig, Runner

    from adapters.driver_openai_agents import scripted_model
    from askance.openai_agents import tool

    async def scene(client: askance.AsyncClient) -> None:
        tools = [tool(client, f, needs_approval=True) for f in case.tools()]
        agent = Agent("bot", model=scripted_model(case), tools=list(tools))
        config = RunConfig(group_id=case.session)
        out = await Runner.run(agent, "go", run_config=config)
        state = out.to_state()
        state.approve(out.interruptions[0])
        person = asyncio.create_task(asyncio.to_thread(place.ann.answer, case.session, "c1", "reject", feedback="no"))
        out = await Runner.run(agent, state, run_config=config)
        await person
        assert out.final_output == "done"

    play(case, scene)
    assert read_effects(case.effects) == []


def test_openai_agents_context_has_the_approved_arguments(place: Place, case: Case) -> None:
    from agents import Agent, RunConfig, Runner
    from agents.tool_context import ToolContext

    from adapters.driver_openai_agents import scripted_model
    from askance.openai_agents import tool

    ran: list[Any] = []

    def pay(ctx: Any, amount: int, to: str) -> str:
        ran.extend([amount, to, json.loads(ctx.tool_arguments), json.loads(ctx.tool_call.arguments)])
        return "paid"

    pay.__annotations__["ctx"] = ToolContext[Any]

    async def scene(client: askance.AsyncClient) -> None:
        agent = Agent("bot", model=scripted_model(case), tools=[tool(client, pay)])
        edit = json.dumps({"amount": 4, "to": "bob"})
        person = asyncio.create_task(asyncio.to_thread(place.ann.answer, case.session, "c1", "approve", input=edit))
        await Runner.run(agent, "go", run_config=RunConfig(group_id=case.session))
        await person

    play(case, scene)
    assert ran == [4, "bob", {"amount": 4, "to": "bob"}, {"amount": 4, "to": "bob"}]


def test_agentscope_parks_and_trusts_no_confirmation(place: Place, case: Case) -> None:
    from agentscope.message import UserMsg

    from adapters.driver_agentscope import build, seen
    from askance.agentscope import resume

    async def scene(client: askance.AsyncClient) -> None:
        agent = build(case, client, pause=True)
        types = [str(getattr(e, "type", "")) async for e in agent.reply_stream(UserMsg(name="user", content="go"))]
        assert types[-1] == "REQUIRE_USER_CONFIRM"
        parked = agent.state.model_dump_json()
        # resume confirms each call, as a forged confirmation would: askance has not decided.
        assert [str(e.type) async for e in resume(agent)] == ["REQUIRE_USER_CONFIRM"]
        assert read_effects(case.effects) == []
        await asyncio.to_thread(place.ann.answer, case.session, "c1", "approve")
        case.effects.with_suffix(".state").write_text(parked)
        agent = build(case, client, pause=True)  # in another process, from the stored state
        assert [str(e.type) async for e in resume(agent)][-1] == "REPLY_END"
        assert seen(agent).results["c1"].startswith("pay done")

    play(case, scene)
    assert read_effects(case.effects) == PAID


def make_external(name: str) -> Any:
    from agentscope.permission import PermissionBehavior, PermissionDecision
    from agentscope.tool import ToolBase

    class External(ToolBase):
        description = "Pays at the frontend."
        input_schema = SCHEMA
        is_concurrency_safe, is_read_only, is_external_tool = True, False, True

        async def check_permissions(self, tool_input: Any, context: Any) -> PermissionDecision:
            return PermissionDecision(PermissionBehavior.ALLOW, "")

    tool = External()
    tool.name = name
    return tool


def test_agentscope_frontend_runs_what_was_approved(place: Place, case: Case) -> None:
    from agentscope.agent import Agent
    from agentscope.event import ExternalExecutionResultEvent, RequireExternalExecutionEvent
    from agentscope.message import Msg, ToolResultBlock, UserMsg
    from agentscope.state import AgentState
    from agentscope.tool import Toolkit

    from adapters.driver_agentscope import ScriptedModel, seen
    from askance.agentscope import Askance, events

    async def scene(client: askance.AsyncClient) -> None:
        tools, state = Toolkit(tools=[make_external("pay")]), AgentState(session_id=case.session)
        proposed = [Call("c1", "pay", {"amount": 4, "to": "ada", "fast": 1})]
        agent = Agent("bot", "", ScriptedModel(proposed), tools, middlewares=[Askance(client)], state=state)
        edit = json.dumps({"amount": 4, "to": "ada", "fast": True})  # for Python the same as 1
        person = asyncio.create_task(asyncio.to_thread(place.ann.answer, case.session, "c1", "approve", input=edit))
        stream = [e async for e in agent.reply_stream(UserMsg(name="user", content="go"))]
        await person
        asked = stream[-1]
        assert isinstance(asked, RequireExternalExecutionEvent)
        assert asked.tool_calls[0].input == edit  # not the model's arguments
        result = ToolResultBlock(id="c1", name="pay", output="paid at the frontend", state="success")  # type: ignore[arg-type]
        done = ExternalExecutionResultEvent(reply_id=asked.reply_id, execution_results=[result])
        await agent.reply(done)
        assert seen(agent).results["c1"] == "paid at the frontend"

        # AgentScope's own consumer builds its message from askance's stream.
        msg = Msg(name="bot", role="assistant", content=[], id=asked.reply_id)
        async for event in events(client, case.session):
            msg.append_event(event)
            if event.type == "TOOL_RESULT_END":
                break
        [block] = msg.get_content_blocks("tool_result")
        assert (block.state, str(block.output).count("paid at the frontend")) == ("success", 1)

    play(case, scene)
    call = place.ann.find(case.session, "c1")
    assert (call["state"], call["result"]["state"]) == ("finished", "success")


def test_agentscope_frontend_result_that_is_too_large(place: Place, case: Case) -> None:
    from agentscope.agent import Agent
    from agentscope.event import ExternalExecutionResultEvent, RequireExternalExecutionEvent
    from agentscope.message import ToolResultBlock, UserMsg
    from agentscope.state import AgentState
    from agentscope.tool import Toolkit

    from adapters.driver_agentscope import ScriptedModel, seen
    from askance.agentscope import Askance

    async def scene(client: askance.AsyncClient) -> None:
        tools, state = Toolkit(tools=[make_external("pay")]), AgentState(session_id=case.session)
        agent = Agent("bot", "", ScriptedModel(case.calls), tools, middlewares=[Askance(client)], state=state)
        person = asyncio.create_task(asyncio.to_thread(place.ann.answer, case.session, "c1", "approve"))
        *_, asked = [e async for e in agent.reply_stream(UserMsg(name="user", content="go"))]
        assert isinstance(asked, RequireExternalExecutionEvent)
        await person
        result = ToolResultBlock(id="c1", name="pay", output="x" * 2_000_000, state="success")  # type: ignore[arg-type]
        await agent.reply(ExternalExecutionResultEvent(reply_id=asked.reply_id, execution_results=[result]))
        assert seen(agent).results["c1"].startswith("The tool ran, but askance refused its result: ")
        assert seen(agent).final == "done"

    play(case, scene)
    call = place.ann.find(case.session, "c1")
    assert (call["state"], call["result"]["state"]) == ("finished", "error")


def test_agentscope_answer_of_a_person_reaches_an_external_call(place: Place, case: Case) -> None:
    from agentscope.agent import Agent
    from agentscope.message import UserMsg
    from agentscope.state import AgentState
    from agentscope.tool import Toolkit

    from adapters.driver_agentscope import ScriptedModel, seen
    from askance.agentscope import Askance

    async def scene(client: askance.AsyncClient) -> None:
        tools, state = Toolkit(tools=[make_external("pay")]), AgentState(session_id=case.session)
        agent = Agent("bot", "", ScriptedModel(case.calls), tools, middlewares=[Askance(client)], state=state)
        answer = asyncio.to_thread(place.ann.answer, case.session, "c1", "respond", output="paid in cash")
        person = asyncio.create_task(answer)
        types = [str(getattr(e, "type", "")) async for e in agent.reply_stream(UserMsg(name="user", content="go"))]
        await person
        assert "REQUIRE_EXTERNAL_EXECUTION" not in types
        assert types[-1] == "REPLY_END"
        assert seen(agent).results["c1"] == "paid in cash"

    play(case, scene)


def test_agentscope_frontend_confirms_at_askance(place: Place, case: Case) -> None:
    from agentscope.event import ConfirmResult, RequireUserConfirmEvent, UserConfirmResultEvent
    from agentscope.message import UserMsg

    from adapters.driver_agentscope import build, seen
    from askance.agentscope import events, send

    async def frontend() -> None:
        async with askance.AsyncClient(case.url, place.server.tokens["ann"]) as approver:
            await asyncio.to_thread(place.ann.await_request, case.session, "c1")
            async for event in events(approver, case.session):
                if isinstance(event, RequireUserConfirmEvent):
                    confirm = ConfirmResult(confirmed=True, tool_call=event.tool_calls[0])
                    yes = UserConfirmResultEvent(reply_id=event.reply_id, confirm_results=[confirm])
                    await send(approver, case.session, yes)
                    return

    async def scene(client: askance.AsyncClient) -> None:
        agent, answering = build(case, client), asyncio.create_task(frontend())
        await agent.reply(UserMsg(name="user", content="go"))
        await answering
        assert seen(agent).results["c1"].startswith("pay done")

    play(case, scene)
    assert read_effects(case.effects) == PAID
