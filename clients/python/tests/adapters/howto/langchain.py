from langchain.agents import create_agent
from langchain_core.messages import HumanMessage

from askance import Client
from askance.langchain import AskanceMiddleware
from support import model, refund

agent = create_agent(model, [refund], middleware=[AskanceMiddleware(Client())])  # last of all
out = agent.invoke({"messages": [HumanMessage("refund A-1")]}, {"configurable": {"thread_id": "support-7"}})
print(out["messages"][-2].text)
