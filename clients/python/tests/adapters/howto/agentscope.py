import asyncio

from agentscope.agent import Agent
from agentscope.message import UserMsg
from agentscope.state import AgentState
from agentscope.tool import FunctionTool, Toolkit

from askance import AsyncClient
from askance.agentscope import Askance
from support import model, refund


async def main() -> None:
    async with AsyncClient() as client:
        tools, state = Toolkit(tools=[FunctionTool(refund)]), AgentState(session_id="support-7")
        agent = Agent("support", "", model, tools, middlewares=[Askance(client)], state=state)
        async for event in agent.reply_stream(UserMsg(name="user", content="refund A-1")):
            print(getattr(event, "delta", ""))


asyncio.run(main())
