"""What every adapter test shares: the tools, the script of the model, and one run of an agent."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

DRIVERS = {
    "langchain": "langchain",
    "langchain_sync": "langchain",
    "agentscope": "agentscope",
    "pydantic_ai": "pydantic_ai",
    "openai_agents": "agents",
    "google_adk": "google.adk",
}


@dataclasses.dataclass
class Call:
    """A tool call of the scripted model."""

    id: str
    name: str
    args: dict[str, Any]


@dataclasses.dataclass
class Case:
    """One run: the model follows its script, and the tools write their effects to a file."""

    url: str
    token: str
    session: str
    calls: list[Call]
    effects: Path
    die: bool = False  # the process is killed by its tool, after the effect
    fail: bool = False  # the tool raises
    tamper: bool = False  # the application changes the arguments before they reach the tool
    patience: float = 20.0

    def tools(self) -> list[Callable[..., str]]:
        def act(name: str, args: dict[str, Any]) -> str:
            with self.effects.open("a") as file:
                file.write(json.dumps([name, args], sort_keys=True) + "\n")
            if self.die:
                os.kill(os.getpid(), signal.SIGKILL)
            if self.fail:
                raise RuntimeError("the bank is closed")
            return f"{name} done: " + json.dumps(args, sort_keys=True)

        def look(what: str) -> str:
            """Look something up."""
            return act("look", {"what": what})

        def pay(amount: int, to: str) -> str:
            """Pay an amount."""
            return act("pay", {"amount": amount, "to": to})

        def wire(amount: int, to: str) -> str:
            """Pay a large amount."""
            return act("wire", {"amount": amount, "to": to})

        def wipe(path: str) -> str:
            """Delete a folder."""
            return act("wipe", {"path": path})

        return [look, pay, wire, wipe]


@dataclasses.dataclass
class Seen:
    """What the model saw of each call, and its final answer."""

    results: dict[str, str]
    final: str = ""


def read_effects(path: Path) -> list[tuple[str, dict[str, Any]]]:
    if not path.exists():
        return []
    return [(name, args) for name, args in map(json.loads, path.read_text().splitlines())]


def run_case(driver: str, case: Case) -> None:
    """The program of a separate process."""
    seen = importlib.import_module(driver).run(case)
    case.effects.with_suffix(".seen").write_text(json.dumps(dataclasses.asdict(seen)))
