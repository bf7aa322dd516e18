"""JSON Schema of a function's parameters, from its type hints, and the way back from JSON to arguments."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ._errors import Invalid

Schema = dict[str, Any]

_SIMPLE: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}
_NONE = type(None)


class Shape:
    """One hint: its schema, and how to read a JSON value of it."""

    def __init__(self, schema: Schema, read: Callable[[Any, str], Any]) -> None:
        self.schema, self.read = schema, read


def _fail(where: str, want: str, value: object) -> Invalid:
    return Invalid(
        f"cannot read the argument {where}: want {want}, got {value!r:.80}",
        code="invalid",
        hint="Send what the schema says",
    )


def _unsupported(where: str, hint: object) -> Invalid:
    return Invalid(
        f"cannot make a schema of {where}: the type hint {_show(hint)} is not supported",
        code="invalid",
        hint="Use str, int, float, bool, None, Any, Literal, Enum, Optional or a union, list, dict with str keys, "
        "dataclasses or TypedDict; or pass input_schema=",
    )


def _show(hint: object) -> str:
    return hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)


def make_shape(hint: Any, where: str, inside: tuple[Any, ...] = ()) -> Shape:
    """Make the shape of a type hint; an unsupported one is an error that names the place."""
    if isinstance(hint, (typing.ForwardRef, str, typing.TypeVar)) or hint in inside:
        raise _unsupported(where, hint)
    if hint is Any or hint is object:
        return Shape({}, lambda value, at: value)
    if hint is None or hint is _NONE:
        return Shape({"type": "null"}, _read_none)
    if hint in _SIMPLE:
        return Shape({"type": _SIMPLE[hint]}, lambda value, at: _read_simple(hint, value, at))
    origin, args = get_origin(hint), get_args(hint)
    if origin is typing.Annotated:
        inner = make_shape(args[0], where, inside)
        note = next((a for a in args[1:] if isinstance(a, str)), "")
        return Shape({**inner.schema, "description": note} if note else inner.schema, inner.read)
    if origin in (Union, types.UnionType):
        return _make_union(args, where, inside)
    if origin is Literal:
        return _make_choice(list(args), {a: a for a in args}, where, hint)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        members = {m.value: m for m in hint}
        return _make_choice(list(members), members, where, hint)
    if hint in (list, Sequence) or origin in (list, Sequence):
        return _make_list(args[0] if args else Any, where, inside)
    if hint in (dict, Mapping) or origin in (dict, Mapping):
        return _make_dict(args, where, inside, hint)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _make_dataclass(hint, where, (*inside, hint))
    if _is_typed_dict(hint):
        return _make_typed_dict(hint, where, (*inside, hint))
    raise _unsupported(where, hint)


def _read_none(value: Any, at: str) -> None:
    if value is not None:
        raise _fail(at, "null", value)


def _read_simple(kind: Any, value: Any, at: str) -> Any:
    if kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError as err:
            raise _fail(at, "a number in the range of a float", value) from err
        if number != value:  # otherwise the tool would get another number than people saw
            raise _fail(at, "a number that a float holds", value)
        return number
    if kind is int and isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise _fail(at, f"a value of type {_SIMPLE[kind]}", value)
    return value


def _make_union(args: tuple[Any, ...], where: str, inside: tuple[Any, ...]) -> Shape:
    if Any in args:  # Python 3.10 makes Optional of a parameter whose default is None
        return make_shape(Any, where, inside)
    shapes = [make_shape(a, where, inside) for a in args]

    def read(value: Any, at: str) -> Any:
        for shape in shapes:
            try:
                found = shape.read(value, at)
            except Invalid:
                continue
            if type(found) is type(value) or not isinstance(value, (int, float, bool)):
                return found
        for shape in shapes:
            try:
                return shape.read(value, at)
            except Invalid:
                continue
        raise _fail(at, "one of " + ", ".join(_show(a) for a in args), value)

    return Shape({"anyOf": [s.schema for s in shapes]}, read)


def _make_choice(values: list[Any], results: Mapping[Any, Any], where: str, hint: Any) -> Shape:
    if not all(v is None or isinstance(v, (str, int, bool)) for v in values):
        raise _unsupported(where, hint)

    def read(value: Any, at: str) -> Any:
        for known in values:
            if type(known) is type(value) and known == value:
                return results[known]
        raise _fail(at, "one of " + ", ".join(map(repr, values)), value)

    return Shape({"enum": values}, read)


def _make_list(hint: Any, where: str, inside: tuple[Any, ...]) -> Shape:
    item = make_shape(hint, f"an item of {where}", inside)

    def read(value: Any, at: str) -> Any:
        if not isinstance(value, list):
            raise _fail(at, "a list", value)
        return [item.read(v, f"{at}[{i}]") for i, v in enumerate(value)]

    return Shape({"type": "array", "items": item.schema}, read)


def _make_dict(args: tuple[Any, ...], where: str, inside: tuple[Any, ...], hint: Any) -> Shape:
    if args and args[0] is not str:
        raise _unsupported(where, hint)
    member = make_shape(args[1] if args else Any, f"a value of {where}", inside)

    def read(value: Any, at: str) -> Any:
        if not isinstance(value, dict):
            raise _fail(at, "an object", value)
        return {k: member.read(v, f"{at}.{k}") for k, v in value.items()}

    return Shape({"type": "object", "additionalProperties": member.schema}, read)


def _make_object(
    members: Mapping[str, Shape], required: Sequence[str], build: Callable[[dict[str, Any]], Any]
) -> Shape:
    schema: Schema = {
        "type": "object",
        "properties": {name: shape.schema for name, shape in members.items()},
        "required": list(required),
        "additionalProperties": False,
    }

    def read(value: Any, at: str) -> Any:
        if not isinstance(value, dict):
            raise _fail(at, "an object", value)
        for name in value:
            if name not in members:
                raise _fail(at, "only " + (", ".join(members) or "no members"), name)
        for name in required:
            if name not in value:
                raise _fail(at, f"the member {name}", value)
        return build({name: members[name].read(v, f"{at}.{name}" if at else name) for name, v in value.items()})

    return Shape(schema, read)


def _make_dataclass(hint: Any, where: str, inside: tuple[Any, ...]) -> Shape:
    hints = _read_hints(hint, where)
    members, required = {}, []
    for item in dataclasses.fields(hint):
        if not item.init:
            continue
        shape = make_shape(hints[item.name], f"{where}.{item.name}", inside)
        if item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING:
            required.append(item.name)
        elif item.default is not dataclasses.MISSING:
            shape = _add_default(shape, item.default)
        members[item.name] = shape
    return _make_object(members, required, lambda values: hint(**values))


def _is_typed_dict(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, dict) and hasattr(hint, "__required_keys__")


def _make_typed_dict(hint: Any, where: str, inside: tuple[Any, ...]) -> Shape:
    members, required = {}, set(hint.__required_keys__)
    for name, inner in _read_hints(hint, where).items():
        word = getattr(get_origin(inner), "_name", "")
        if word in ("Required", "NotRequired"):  # Python itself misses them if annotations are strings
            inner = get_args(inner)[0]
            required = required | {name} if word == "Required" else required - {name}
        members[name] = make_shape(inner, f"{where}.{name}", inside)
    return _make_object(members, sorted(required), lambda values: values)


def _add_default(shape: Shape, default: Any) -> Shape:
    if isinstance(default, enum.Enum):
        default = default.value
    if default is None or isinstance(default, (str, int, float, bool)):
        return Shape({**shape.schema, "default": default}, shape.read)
    return shape


def _read_hints(of: Any, where: str) -> dict[str, Any]:
    try:
        return get_type_hints(of, include_extras=True)
    except (NameError, TypeError) as err:
        raise Invalid(
            f"cannot read the type hints of {where}: {err}",
            code="invalid",
            hint="Define its types at the top of a module",
        ) from err


def make_parameters(function: Callable[..., Any], name: str) -> Shape:
    """Make the shape of a function's parameters: one object, whose members become keyword arguments."""
    hints = _read_hints(function, name)
    members, required = {}, []
    for parameter in inspect.signature(function).parameters.values():
        where = f"{name}({parameter.name})"
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise Invalid(
                f"cannot make a schema of {where}: it cannot be passed by name",
                code="invalid",
                hint="Use named parameters",
            )
        if parameter.name not in hints:
            raise Invalid(
                f"cannot make a schema of {where}: it has no type hint", code="invalid", hint="Add a type hint"
            )
        shape = make_shape(hints[parameter.name], where)
        if parameter.default is parameter.empty:
            required.append(parameter.name)
        else:
            shape = _add_default(shape, parameter.default)
        members[parameter.name] = shape
    return _make_object(members, required, lambda values: values)


def write_value(value: Any) -> Any:
    """Turn an argument into a JSON value: dataclasses become objects, enum members their values."""
    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: write_value(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init}
    if isinstance(value, Mapping):
        return {k: write_value(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [write_value(v) for v in value]
    return value


def read_description(function: Callable[..., Any]) -> str:
    return inspect.getdoc(function) or ""


def is_async(function: Callable[..., Any]) -> bool:
    if inspect.iscoroutinefunction(function):
        return True
    return sys.version_info >= (3, 8) and inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
