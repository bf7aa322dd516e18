"""The outcomes of a proposed call."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from . import _json
from ._errors import AskanceError, Invalid, make_invalid_reply
from .types import Call


@dataclass(frozen=True)
class Proposal:
    """A call that a model wants: tool, arguments as a dict or as JSON text, and the model's id."""

    name: str
    input: Any
    id: str = ""


class _Once:
    """Lets only one caller pass."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def take(self) -> bool:
        return self._lock.acquire(blocking=False)


@dataclass(frozen=True)
class Allowed:
    """The call is allowed and this process owns its run. Run it with exactly ``input``."""

    call: Call = field(repr=False)
    input: Any
    input_text: str
    _once: _Once = field(default_factory=_Once, repr=False, compare=False)

    @property
    def id(self) -> str:
        return str(self.call["tool_call_id"])

    @property
    def name(self) -> str:
        return str(self.call["tool_name"])

    def begin(self) -> None:
        """Mark the run as begun; a second run of the same outcome is an error."""
        if not self._once.take():
            raise AskanceError(
                f"cannot run the call {self.id} twice", code="unfinished", hint="Propose a new call", call=self.call
            )


@dataclass(frozen=True)
class Denied:
    """The call does not run. ``text`` is for the model; ``denial`` contains the rule and what would be allowed."""

    call: Call = field(repr=False)
    text: str
    state: str = "denied"
    denial: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Answered:
    """The call is finished: a person or a worker gave the result, or it ran earlier. Do not run it."""

    call: Call = field(repr=False)
    output: str
    content: Any = None

    @property
    def text(self) -> str:
        """The output as the text for the model."""
        return self.output


Outcome = Union[Allowed, Denied, Answered]

_STATES = {"pending", "asking", "allowed", "submitted", "finished"}
_PLACES = {"local", "remote", "external"}


def read_text(content: Any) -> str:
    """Return the text of a result; text blocks are joined by line feeds."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not all(isinstance(b, dict) for b in content):
        raise make_invalid_reply("read a result", "its output is neither a text nor a list of blocks")
    return "\n".join(str(b.get("text", "")) for b in content if b.get("type") == "text")


def write_output(value: object) -> Any:
    """Return a tool's return value as the output of a result: texts and blocks unchanged, all else as JSON text."""
    if value is None:
        return ""
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as err:
            raise Invalid(
                "cannot report the output: it is not valid Unicode", code="invalid", hint="Return valid text"
            ) from err
        return value
    if is_blocks(value):
        return value
    return _json.write(value)


def is_blocks(value: object) -> bool:
    """Report whether a value is a list of AgentScope's text or data blocks."""
    return (
        isinstance(value, Sequence)
        and len(value) > 0
        and all(
            isinstance(b, dict) and b.get("type") in ("text", "data") and ("text" in b or "source" in b) for b in value
        )
    )


def read_outcome(call: Call, name: str = "") -> Outcome | None:
    """Return what a runtime does with a call; None means to wait. An unreadable call is an error."""
    what = f"read the call {call.get('tool_call_id')}"
    state, place = call.get("state"), call.get("placement")
    if state not in _STATES:
        raise make_invalid_reply(what, f"its state is {state!r}")
    if name and call.get("tool_name") != name:
        raise make_invalid_reply(what, "it is a call of another tool")
    if state == "finished":
        return _read_result(what, call)
    if place is not None and place not in _PLACES:
        raise make_invalid_reply(what, f"its placement is {place!r}")
    if state != "submitted" or place != "external" or call.get("blocked"):
        return None
    text = call.get("input")
    if not isinstance(text, str):
        raise make_invalid_reply(what, "its input is not a text")
    try:
        return Allowed(call, _json.parse(text), text)
    except ValueError as err:
        raise make_invalid_reply(what, f"its input cannot be used: {err}") from err


def _read_result(what: str, call: Call) -> Outcome:
    result = call.get("result")
    if not isinstance(result, dict) or result.get("state") not in ("success", "error", "interrupted", "denied"):
        raise make_invalid_reply(what, "it is finished and has no result that can be read")
    content = result.get("output")
    text = read_text(content)
    if result["state"] == "success":
        return Answered(call, text, content)
    denial = call.get("denial")
    return Denied(call, text, result["state"], denial if isinstance(denial, dict) else None)
