"""JSON Schema from type hints, and arguments from JSON."""

from __future__ import annotations

import dataclasses
import enum
import sys
import types
from collections.abc import Callable
from typing import Annotated, Any, Literal, Optional, TypedDict

import pytest

import askance
from askance import ToolSpec


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Line:
    product: str
    count: int = 1
    tags: list[str] = dataclasses.field(default_factory=list)


class _Address(TypedDict):
    street: str


class Address(_Address, total=False):
    zip: int


@dataclasses.dataclass
class Node:
    child: Optional[Node]  # noqa: UP045


def order(
    lines: list[Line],
    address: Address,
    how: Literal["air", "sea"],
    color: Color = Color.RED,
    note: Optional[str] = None,  # noqa: UP045
    limits: dict[str, float] | None = None,
    price: Annotated[float, "in euros"] = 1.0,
    urgent: bool = False,
    more: Any = None,
) -> str:
    """Order lines.

    They are sent at once.
    """
    return f"{lines!r} {address} {how} {color} {note} {limits} {price} {urgent} {more}"


def test_schema() -> None:
    spec = ToolSpec(order)
    assert (spec.name, spec.description) == ("order", "Order lines.\n\nThey are sent at once.")
    text = {"type": "string"}
    assert spec.input_schema == {
        "type": "object",
        "properties": {
            "lines": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "product": text,
                        "count": {"type": "integer", "default": 1},
                        "tags": {"type": "array", "items": text},
                    },
                    "required": ["product"],
                    "additionalProperties": False,
                },
            },
            "address": {
                "type": "object",
                "properties": {"street": text, "zip": {"type": "integer"}},
                "required": ["street"],
                "additionalProperties": False,
            },
            "how": {"enum": ["air", "sea"]},
            "color": {"enum": ["red", "blue"], "default": "red"},
            "note": {"anyOf": [text, {"type": "null"}], "default": None},
            "limits": {
                "anyOf": [{"type": "object", "additionalProperties": {"type": "number"}}, {"type": "null"}],
                "default": None,
            },
            "price": {"type": "number", "description": "in euros", "default": 1.0},
            "urgent": {"type": "boolean", "default": False},
            "more": {"default": None},
        },
        "required": ["lines", "address", "how"],
        "additionalProperties": False,
    }


def test_arguments() -> None:
    given = {"lines": [{"product": "a"}], "address": {"street": "b"}, "how": "sea", "color": "blue", "price": 3}
    read = ToolSpec(order).read_input(given)
    assert read["lines"] == [Line("a")]
    assert (read["color"], read["price"]) == (Color.BLUE, 3.0)
    assert type(read["price"]) is float
    assert "urgent" not in read


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"lines": "a"}, "lines"),
        ({"lines": [{"product": 1}]}, r"lines\[0\]\.product"),
        ({"lines": [{}]}, "product"),
        ({"how": "rail"}, "how"),
        ({"urgent": 1}, "urgent"),
        ({"price": True}, "price"),
        ({"address": {"street": "b", "x": 1}}, "x"),
        ({"unknown": 1}, "unknown"),
        ({"note": 7}, "note"),
        ({"price": 2**53 + 1}, "price"),
    ],
)
def test_arguments_that_do_not_fit(change: dict[str, Any], why: str) -> None:
    given = {"lines": [], "address": {"street": "b"}, "how": "sea"} | change
    with pytest.raises(askance.Invalid, match=why):
        ToolSpec(order).read_input(given)


def no_hint(a) -> None: ...  # type: ignore[no-untyped-def]
def any_number(*a: int) -> None: ...
def any_names(**a: int) -> None: ...
def a_set(a: set[int]) -> None: ...
def a_tuple(a: tuple[int, str]) -> None: ...
def other_keys(a: dict[int, str]) -> None: ...
def some_bytes(a: bytes) -> None: ...
def a_function(a: Callable[[], None]) -> None: ...
def itself(a: Node) -> None: ...
def a_class(a: Server) -> None: ...
def unknown(a: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821


class Server:
    """A class without a JSON form."""


@pytest.mark.parametrize(
    "function",
    [no_hint, any_number, any_names, a_set, a_tuple, other_keys, some_bytes, a_function, itself, a_class, unknown],
)
def test_unsupported_hints(function: Callable[..., Any]) -> None:
    with pytest.raises(askance.Invalid, match=function.__name__):
        ToolSpec(function)


def test_schema_of_the_caller() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    spec = ToolSpec(lambda **given: given, name="free", input_schema=schema)
    assert spec.input_schema == schema
    assert spec.invoke({"a": 1}) == {"a": 1}
    assert spec.write_input((), {"a": 1}) == '{"a":1}'
    with pytest.raises(askance.Invalid, match="no name"):
        ToolSpec(lambda: None)


def test_not_required_members() -> None:
    if sys.version_info < (3, 11):
        pytest.skip("NotRequired needs Python 3.11")
    scope: dict[str, Any] = {}
    exec(
        "from __future__ import annotations\n"
        "from typing import NotRequired, TypedDict\n"
        "class Place(TypedDict):\n    street: str\n    zip: NotRequired[int]\n"
        "def visit(place: Place) -> None: ...\n",
        scope,
    )
    sys.modules["made"] = types.ModuleType("made")
    sys.modules["made"].__dict__.update(scope)
    scope["Place"].__module__ = "made"
    schema = ToolSpec(scope["visit"]).input_schema["properties"]["place"]
    assert schema["required"] == ["street"]
    assert schema["properties"]["zip"] == {"type": "integer"}
