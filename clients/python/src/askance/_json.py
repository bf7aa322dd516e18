"""JSON without losses: no duplicate names, no numbers that change, and RFC 8785 text."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from ._errors import Invalid

MAX_DEPTH = 1000
scan_string: Callable[[str, int, bool], tuple[str, int]] = json.decoder.scanstring  # type: ignore[attr-defined]


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a name occurs twice in one object")
    return out


def _read_float(text: str) -> float:
    value = float(text)
    if math.isinf(value) or (value == 0 and any(c in "123456789" for c in text.lower().split("e")[0])):
        raise ValueError(f"the number {text:.40} is outside the range of a float")
    return value


def parse(text: str | bytes) -> Any:
    """Parse JSON text strictly; a ValueError says what is wrong with it."""
    if isinstance(text, bytes):
        text = text.decode("utf-8")
    try:
        value = json.loads(text, object_pairs_hook=_read_object, parse_float=_read_float, parse_constant=_refuse)
    except RecursionError:
        value = _parse_deep(text)
    text.encode("utf-8")
    if "\\u" in text:  # an escape may be half of a pair
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


_SPACE = re.compile(r"[ \t\n\r]*")
_SCALAR = re.compile(r"(true|false|null)|(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_LITERALS = {"true": True, "false": False, "null": None}


def _parse_deep(text: str) -> Any:
    """Parse JSON that is nested deeper than Python's own reader can go."""
    open_parts: list[tuple[str, list[Any]]] = []
    value: Any = None
    at, complete = 0, False

    def skip(at: int) -> int:
        found = _SPACE.match(text, at)
        return found.end() if found else at

    try:
        while True:
            at = skip(at)
            if not complete:
                if text[at] in "[{":
                    if len(open_parts) == MAX_DEPTH:
                        raise ValueError("it is nested too deeply")
                    open_parts.append((text[at], []))
                    at = skip(at + 1)
                    if text[at] != {"[": "]", "{": "}"}[open_parts[-1][0]]:
                        at = _read_name(text, at, open_parts[-1], skip)
                        continue
                elif text[at] == '"':
                    value, at = scan_string(text, at + 1, True)
                    complete = True
                    continue
                else:
                    found = _SCALAR.match(text, at)
                    if found is None:
                        raise ValueError(f"it has a fault at character {at}")
                    literal, whole, *rest = found.groups()
                    is_whole = rest == [None, None]
                    value = _LITERALS[literal] if literal else int(whole) if is_whole else _read_float(found[0])
                    at, complete = found.end(), True
                    continue
            elif not open_parts:
                if at != len(text):
                    raise ValueError(f"it has a fault at character {at}")
                return value
            else:
                open_parts[-1][1].append(value)
                complete = False
                if text[at] == ",":
                    at = _read_name(text, skip(at + 1), open_parts[-1], skip)
                    continue
            kind, items = open_parts.pop()
            if text[at] != {"[": "]", "{": "}"}[kind]:
                raise ValueError(f"it has a fault at character {at}")
            value = items if kind == "[" else _read_object(list(zip(items[::2], items[1::2])))
            at, complete = at + 1, True
    except IndexError as err:
        raise ValueError("it ends too early") from err


def _read_name(text: str, at: int, part: tuple[str, list[Any]], skip: Callable[[int], int]) -> int:
    if part[0] == "[":
        return at
    if text[at] != '"':
        raise ValueError(f"it has a fault at character {at}")
    name, at = scan_string(text, at + 1, True)
    part[1].append(name)
    if text[skip(at)] != ":":
        raise ValueError(f"it has a fault at character {at}")
    return skip(at) + 1


def write(value: object) -> str:
    """Write a value as compact JSON text; integers stay exact, NaN and infinity are errors."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        text.encode("utf-8")
    except (TypeError, ValueError, RecursionError) as err:
        raise Invalid(
            f"cannot write the value as JSON: {err}",
            code="invalid",
            hint="Use dicts, lists, texts, finite numbers, booleans and None",
        ) from err
    return text


def input_text(value: str | Mapping[str, Any]) -> str:
    """Return the JSON text of a call's arguments. A text stays unchanged: askance records one that is no JSON."""
    if isinstance(value, Mapping):
        return write(dict(value))
    try:
        if not isinstance(value, str):
            raise ValueError(f"they are a {type(value).__name__}")
        value.encode("utf-8")
    except ValueError as err:
        raise Invalid(
            f"cannot use the arguments: {err}",
            code="invalid",
            hint="Give a dict, or the JSON text that the model wrote",
        ) from err
    return value


def _number(value: int | float) -> str:
    """Print a number as ECMAScript does; RFC 8785 section 3.2.2.3."""
    try:
        as_float = float(value)
    except OverflowError as err:
        raise ValueError("an integer is outside the range of a float") from err
    if math.isnan(as_float) or math.isinf(as_float):
        raise ValueError("a number is not finite")
    if as_float == 0:
        return "0"
    sign, shortest = ("-" if as_float < 0 else ""), repr(abs(as_float))
    mantissa, _, exponent = shortest.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + ("" if fraction == "0" else fraction)).lstrip("0")
    point = len(whole) + int(exponent or 0)
    if whole == "0":
        point -= len(fraction) - len(fraction.lstrip("0")) + 1
        digits = fraction.lstrip("0")
    stripped = digits.rstrip("0")
    count = len(stripped)
    if count <= point <= 21:
        text = stripped + "0" * (point - count)
    elif 0 < point <= 21:
        text = stripped[:point] + "." + stripped[point:]
    elif -6 < point <= 0:
        text = "0." + "0" * -point + stripped
    else:
        power = point - 1
        text = (
            stripped[0]
            + ("." + stripped[1:] if count > 1 else "")
            + "e"
            + ("+" if power > 0 else "-")
            + str(abs(power))
        )
    if isinstance(value, int) and abs(value) >= 2**53 and stripped.ljust(point, "0") != str(abs(value)):
        raise ValueError("an integer cannot be represented exactly; send it as a text")
    return sign + text


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _string(value: str) -> str:
    value.encode("utf-8")
    return '"' + "".join(_ESCAPES.get(c) or (f"\\u{ord(c):04x}" if c < " " else c) for c in value) + '"'


def canonicalize(value: object) -> str:
    """Write a parsed JSON value in the canonical form of RFC 8785, or raise ValueError."""
    out: list[str] = []
    todo: list[tuple[object, int]] = [(value, 0)]  # a depth of -1 marks text to write unchanged
    while todo:
        item, depth = todo.pop()
        if depth < 0:
            out.append(str(item))
        elif depth >= MAX_DEPTH and isinstance(item, (Mapping, list, tuple)):
            raise ValueError("it is nested too deeply")
        elif item is None or isinstance(item, bool):
            out.append({None: "null", True: "true", False: "false"}[item])
        elif isinstance(item, (int, float)):
            out.append(_number(item))
        elif isinstance(item, str):
            out.append(_string(item))
        elif isinstance(item, Mapping):
            names = sorted(item, key=lambda name: str(name).encode("utf-16-be"))
            parts: list[tuple[object, int]] = [("{", -1)]
            for name in names:
                parts += [(("," if len(parts) > 1 else "") + _string(name) + ":", -1), (item[name], depth + 1)]
            todo += reversed([*parts, ("}", -1)])
        elif isinstance(item, Sequence):
            parts = [("[", -1)]
            for member in item:
                parts += [(",", -1)] * (len(parts) > 1) + [(member, depth + 1)]
            todo += reversed([*parts, ("]", -1)])
        else:
            raise ValueError(f"{type(item).__name__} is not JSON")
    return "".join(out)
