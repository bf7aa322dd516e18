from agents import FunctionTool
from google.adk.plugins import BasePlugin
from pydantic_ai import FunctionToolset
from pydantic_ai.toolsets import AbstractToolset

from askance import AsyncClient
from askance.google_adk import AskancePlugin
from askance.openai_agents import tool
from askance.pydantic_ai import AskanceToolset
from support import refund

client = AsyncClient()
toolset: AbstractToolset[None] = AskanceToolset(FunctionToolset([refund]), client)  # Agent(toolsets=[toolset])
gated: FunctionTool = tool(client, refund, session="support-7")  # Agent(tools=[gated])
plugin: BasePlugin = AskancePlugin(client)  # App(plugins=[plugin])
