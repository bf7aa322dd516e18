"""LangChain: the same agent, synchronous."""

from __future__ import annotations

from adapters.driver_langchain import build, seen
from adapters.world import Case, Seen
from askance import Client


def run(case: Case) -> Seen:
    with Client(case.url, case.token, patience=case.patience) as client:
        config = {"configurable": {"thread_id": case.session}}
        out = build(case, client=client).invoke({"messages": [("user", "go")]}, config)
        return seen(out["messages"])
