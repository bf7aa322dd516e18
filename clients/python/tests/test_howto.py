"""The programs of docs/howto/python.md, run unchanged."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import askance
from askance import Proposal
from conftest import ROLES, ROOT, Server, start_process

FOLDER = Path(__file__).resolve().parent / "howto"
PAGE = ROOT / "docs" / "howto" / "python.md"


def start(server: Server, program: str, name: str) -> subprocess.Popen[str]:
    """Start a program with a token of the role that the page names last before it."""
    text = PAGE.read_text(encoding="utf-8")
    before = text[: text.index((FOLDER / program).read_text(encoding="utf-8"))]
    assert re.findall(r"askance token create \w+ --role (\w+)", before)[-1] == ROLES[name][1]
    source = str(Path(askance.__file__).resolve().parents[1])
    env = os.environ | {"PYTHONPATH": source, "ASKANCE_URL": server.url, "ASKANCE_TOKEN": server.tokens[name]}
    env |= {"ENGINE_KEY": server.engine_key}
    return start_process(sys.executable, FOLDER / program, env=env)


def test_page_has_these_programs() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(re.sub(r"```.*?```", "", text, flags=re.S).split()) <= 600
    shown = re.findall(r"```python\n(.*?)```", text, flags=re.S)
    assert sorted(shown) == sorted(p.read_text(encoding="utf-8") for p in FOLDER.glob("*.py"))


def test_programs_of_the_page(own_server: Server) -> None:
    gate = start(own_server, "gate.py", "bot")
    request = own_server.await_request("support-7")
    own_server.client("ann").respond(request, "approve", input={"order": "A-1", "cents": 5})
    assert gate.communicate()[0] == "success refunded 5 cents of A-1\n"

    responses = start(own_server, "responses.py", "bot")
    own_server.await_call("support-7", lambda c: c["tool_call_id"] == "call-200" and c["state"] == "asking")
    approve = start(own_server, "approve.py", "ann")
    shown = [f'call-{cents} {{"order":"A-1","cents":{cents}}}' for cents in (100, 200)]
    assert sorted(approve.communicate()[0].splitlines()) == shown
    said = sorted(responses.communicate()[0].splitlines())
    assert said[0] == "call-100 refunded 100"
    assert "Ask for the receipt." in said[1]

    worker = start(own_server, "worker.py", "wendy")
    shipped = (
        own_server.client().gate("support-7", "turn-3", tools=[]).calls([Proposal("ship", {"order": "A-1"}, "c1")])
    )
    assert [o.text for o in shipped if not isinstance(o, askance.Allowed)] == ["shipped A-1 with ak_"]
    worker.send_signal(signal.SIGTERM)
    assert worker.communicate()[0] == ""
    assert worker.returncode == 0
