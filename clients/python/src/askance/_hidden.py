"""Redacted values in the digest of an approval request: each value is replaced by a commitment."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Iterator, Sequence

from . import _json

_MAX_STEPS = 64
_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\n\r]*")
_SHORT = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    '"': '\\"',
    "\\": "\\\\",
}
_UNQUOTED = {v[1]: k for k, v in _SHORT.items() if k != '"'} | {'"': '"'}

# The remaining steps of a path below a value, and whether a star led there.
_Rest = tuple[tuple[str, ...], bool]
_Span = tuple[int, int, str]


def quote_go(text: str) -> str:
    """Quote a text as Go's strconv.Quote does."""
    out = []
    for c in text:
        if c in _SHORT:
            out.append(_SHORT[c])
        elif c.isprintable():
            out.append(c)
        elif c < " " or c == "\x7f":
            out.append(f"\\x{ord(c):02x}")
        else:
            out.append(f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}")
    return '"' + "".join(out) + '"'


_ESCAPE = re.compile(r'\\(?:([abfnrtv\\"])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8}))')
_STEP = re.compile(r'\.([^.\[ "\'()]+)|\["((?:[^"\\\n]|\\.)*)"\]')


def _unquote(text: str) -> str:
    out, at = "", 0
    while at < len(text):
        if text[at] != "\\":
            out, at = out + text[at], at + 1
            continue
        found = _ESCAPE.match(text, at)
        if found is None:
            raise ValueError("an escape in the path is unknown")
        short, *numbers = found.groups()
        out += _UNQUOTED[short] if short else chr(int(next(n for n in numbers if n), 16))
        at = found.end()
    return out


def _parse_path(text: str) -> tuple[str, ...] | None:
    """Return the steps of a path below args, or None for a path that hides all arguments."""
    root = re.match(r"[^.\[]*", text)
    steps: list[str] = []
    at = root.end() if root else 0
    if text[:at] != "args":
        return None
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            return None
        try:
            steps.append(found[1] if found[1] is not None else _unquote(found[2]))
        except ValueError:
            return None
        at = found.end()
    return tuple(steps) if 0 < len(steps) <= _MAX_STEPS else None


def _find_members(text: str, at: int) -> Iterator[tuple[str, int, int]]:
    """Yield name, start and end of each member of the object, or element of the list, that begins at an offset."""
    listed, index = text[at] == "[", 0
    at = _skip(text, at + 1)
    while text[at] not in "]}":
        name = str(index)
        if not listed:
            name, at = _json.scan_string(text, at + 1, True)
            at = _skip(text, _skip(text, at) + 1)
        _, end = _DECODER.raw_decode(text, at)
        yield name, at, end
        at, index = _skip(text, end), index + 1
        if text[at] == ",":
            at = _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _find_member(paths: Sequence[_Rest], name: str, leaf: bool) -> tuple[bool, list[_Rest]]:
    hidden, below = False, []
    for steps, wide in paths:
        if steps and steps[0] in (name, "*"):
            hidden = hidden or len(steps) == 1 or (leaf and not wide)
            below.append((steps[1:], wide))
    return hidden, below


def _find_element(paths: Sequence[_Rest], index: str, leaf: bool) -> tuple[bool, list[_Rest]]:
    hidden, below = _find_member(paths, index, leaf)
    for steps, wide in paths:
        named = not wide and bool(steps) and bool(steps[0].strip("0123456789")) and steps[0] != "*"
        hidden = hidden or (leaf and named)
        below.append((steps, wide or steps[:1] == ("*",)))
    return hidden, below


def _find_spans(text: str, at: int, place: str, paths: Sequence[_Rest]) -> Iterator[_Span]:
    find = _find_element if text[at] == "[" else _find_member
    for name, start, end in _find_members(text, at):
        leaf = text[start] not in "[{"
        hidden, below = find(paths, name, leaf)
        inner = f"{place}[{quote_go(name)}]"
        if hidden:
            yield start, end, inner
        elif below and not leaf:
            yield from _find_spans(text, start, inner, below)


def conceal(text: str, hidden: Sequence[str], salt: str) -> str:
    """Return the arguments with each hidden value replaced by a commitment. All other bytes stay the same."""
    spans: list[_Span] = [(0, len(text), "args")]
    paths = [_parse_path(h) for h in hidden]
    try:
        if isinstance(_json.parse(text), dict) and None not in paths:
            spans = list(_find_spans(text, _skip(text, 0), "args", [(p, False) for p in paths if p]))
    except ValueError:
        pass
    out, at = "", 0
    for start, end, place in spans:
        value = f"askance-hidden-v1\x00{place}\x00{text[start:end]}".encode()
        code = hmac.new(salt.encode(), value, hashlib.sha256).hexdigest()
        out, at = out + text[at:start] + f'"[redacted hmac-sha256:{code}]"', end
    return out + text[at:]
