"""The programs of docs/howto/python-frameworks.md, run unchanged."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

import support
from adapters.conftest import Place, start_thread
from adapters.world import Call, Case
from conftest import PATIENCE

PROGRAMS = Path(__file__).parent / "howto"
PAGE = Path(__file__).resolve().parents[4] / "docs" / "howto" / "python-frameworks.md"
REFUND = [Call("c1", "refund", {"order": "A-1", "cents": 500})]


def test_page_has_the_programs() -> None:
    text = PAGE.read_text()
    assert len(text.split()) <= 600
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert sorted(blocks) == sorted(p.read_text() for p in PROGRAMS.glob("*.py"))


@pytest.mark.parametrize("name", ["langchain", "agentscope"])
def test_program(name: str, place: Place, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    model: Any
    if name == "langchain":
        from adapters import driver_langchain

        model = driver_langchain.ScriptedModel(case=Case("", "", "", REFUND, PAGE))
    else:
        from adapters import driver_agentscope

        model = driver_agentscope.ScriptedModel(REFUND)
    monkeypatch.setattr(support, "model", model)
    monkeypatch.setenv("ASKANCE_URL", place.url)
    monkeypatch.setenv("ASKANCE_TOKEN", place.token)
    REFUND[0].id = f"call-{name}"
    run = start_thread(lambda: runpy.run_path(str(PROGRAMS / f"{name}.py"), run_name="__main__"))
    place.ann.answer("support-7", f"call-{name}", "approve")
    run.result(PATIENCE)
    assert "refunded 500 cents of A-1" in capfd.readouterr().out


def test_other_programs_build(monkeypatch: pytest.MonkeyPatch, place: Place) -> None:
    monkeypatch.setenv("ASKANCE_URL", place.url)
    assert runpy.run_path(str(PROGRAMS / "others.py"))["gated"].name == "refund"
