"""What the adapters of agent frameworks share: the five steps of a gated call."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from . import _json
from ._core import GateCore, Invoke, Op, describe
from ._errors import AskanceError, Unavailable
from ._outcomes import Allowed, Answered, Denied, Outcome, Proposal

log = logging.getLogger("askance")

Read = Callable[[Any], tuple[str, Any]]


@dataclass(frozen=True)
class Ran:
    """The tool ran with the approved arguments; value is what it returned."""

    value: Any


@dataclass(frozen=True)
class NotRun:
    """The tool did not run. text is for the model; success is set if a person or a worker supplied it as the result."""

    text: str
    success: bool


class Paused(Exception):
    """The call still waits for people, but the adapter does not wait."""


def is_same(approved: Any, proposed: Any) -> bool:
    """Report whether two values have the same JSON text, because Python treats true as equal to 1."""
    return _json.write(approved) == _json.write(proposed)


def has_same_content(approved: Any, checked: Any) -> bool:
    """Report whether two values are the same JSON value, in any order of members and for any text of a number."""

    def normalize(value: Any) -> str:
        return json.dumps(json.loads(_json.write(value), parse_float=_read_float), sort_keys=True)

    return normalize(approved) == normalize(checked)


def _read_float(text: str) -> float:
    number = float(text)
    return int(number) if number.is_integer() else number


def derive_reply(call_ids: Iterable[str]) -> str:
    """Derive the id of a model response without one from the ids of its calls."""
    return "reply_" + hashlib.sha256("\x00".join(call_ids).encode()).hexdigest()[:32]


def define_tool(name: str, description: str | None, schema: Any, idempotent: Collection[str]) -> dict[str, Any]:
    """Define a tool of a framework for the policy and the people who decide."""
    out: dict[str, Any] = {"name": name}
    out |= {"description": description} if description else {}
    out |= {"input_schema": dict(schema)} if isinstance(schema, Mapping) else {}
    out |= {"annotations": {"idempotent": True}} if name in idempotent else {}
    return out


def decide(core: GateCore, proposal: Proposal, pause: bool = False) -> Op[Outcome]:
    """Propose a call and wait until it is decided; with pause, raise Paused instead of waiting."""
    try:
        return (yield from core.decide_one(proposal, 0 if pause else None))
    except Unavailable as err:
        if pause and err.code == "timeout":
            raise Paused from err
        raise


def execute(
    core: GateCore,
    proposal: Proposal,
    run: Callable[[Any], Any],
    read: Read,
    *,
    pause: bool = False,
    passing: tuple[type[BaseException], ...] = (),
) -> Op[Ran | NotRun]:
    """Propose, wait, run with the approved arguments, report.

    read gives state and output of what run returns. The exceptions passing are a
    framework's way to pause a tool: they are not reported.
    """
    try:
        outcome = yield from decide(core, proposal, pause)
    except AskanceError as err:
        return NotRun(f"The tool did not run: {err}", success=False)
    if isinstance(outcome, Denied):
        return NotRun(outcome.text, success=False)
    if isinstance(outcome, Answered):
        return NotRun(outcome.output, success=True)
    return Ran((yield from run_allowed(core, outcome, run, read, passing)))


def run_allowed(
    core: GateCore,
    allowed: Allowed,
    run: Callable[[Any], Any],
    read: Read,
    passing: tuple[type[BaseException], ...] = (),
) -> Op[Any]:
    """Run an allowed call once and report its outcome."""
    allowed.begin()
    try:
        value = yield Invoke(run, (allowed.input,))
        state, output = read(value)
    except passing:
        raise
    except Exception as err:
        yield from report(core, allowed, describe(err), "error")
        raise
    except BaseException as err:
        yield from report(core, allowed, f"the run was interrupted: {describe(err)}", "interrupted")
        raise
    yield from report(core, allowed, output, state)
    return value


def report(core: GateCore, allowed: Allowed, output: Any, state: str) -> Op[None]:
    """Report a result. If it cannot be stored, the framework gets what the tool returned: its effect happened."""
    try:
        yield from core.report(allowed.id, allowed.name, output, state)
    except AskanceError as err:
        log.error("cannot report the result of the call %s: %s", allowed.id, err)
