"""JSON that loses nothing: no duplicate names, no numbers that change, and RFC 8785 text."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from ._errors import Invalid


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
    except RecursionError as err:
        raise ValueError("it is nested too deeply") from err
    text.encode("utf-8")
    return value


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
    """Give the JSON text of a call's arguments; a text stays byte for byte what it is."""
    if not isinstance(value, str):
        return write(dict(value))
    try:
        parse(value)
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
    if isinstance(value, int) and abs(value) >= 2**53 and text != str(abs(value)):
        raise ValueError("an integer cannot be represented exactly; send it as a text")
    return sign + text


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_MAX_DEPTH = 1000


def _string(value: str) -> str:
    value.encode("utf-8")
    return '"' + "".join(_ESCAPES.get(c) or (f"\\u{ord(c):04x}" if c < " " else c) for c in value) + '"'


def canonicalize(value: object, depth: int = 0) -> str:
    """Write a parsed JSON value in the canonical form of RFC 8785, or raise ValueError."""
    if depth > _MAX_DEPTH:
        raise ValueError("it is nested too deeply")
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)):
        return _number(value)
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, Mapping):
        names = sorted(value, key=lambda name: str(name).encode("utf-16-be"))
        return "{" + ",".join(_string(n) + ":" + canonicalize(value[n], depth + 1) for n in names) + "}"
    if isinstance(value, Sequence):
        return "[" + ",".join(canonicalize(v, depth + 1) for v in value) + "]"
    raise ValueError(f"{type(value).__name__} is not JSON")
