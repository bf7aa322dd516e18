"""Proofs that an engine permits a run: grants, start replies and engine keys (bus/PROTOCOL.md)."""

from __future__ import annotations

import base64
import calendar
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from . import _ed25519, _json
from ._core import idempotency_key
from ._errors import Invalid, Untrusted
from ._hidden import conceal

RECORD_VERSION = 2
KEY_PARTS = ("space", "session_id", "reply_id", "tool_call_id")

Keys = Mapping[str, bytes]


def parse_key(text: str) -> bytes:
    """Read a public key in askance's form: ``ed25519:`` and 32 bytes in base64url."""
    rest = text.strip().removeprefix("ed25519:")
    try:
        key = _decode(rest)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise Invalid(
            f"cannot read the engine key {text!r:.80}",
            code="invalid",
            hint="Pass the path of engine.pub, which must exist here, or a public key from it",
        )
    return key


def name_key(key: bytes) -> str:
    """Return the id of a public key."""
    return hashlib.sha256(key).hexdigest()[:16]


def make_keys(texts: Iterable[str]) -> dict[str, bytes]:
    return {name_key(key): key for key in map(parse_key, texts)}


def _decode(text: str) -> bytes:
    """Read base64url in the only form that has these bytes."""
    decoded = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if base64.urlsafe_b64encode(decoded).rstrip(b"=").decode() != text:
        raise ValueError("not base64url")
    return decoded


def _is_signed(key: bytes | None, domain: str, content: Mapping[str, Any], signature: object) -> bool:
    if key is None or not isinstance(signature, str):
        return False
    try:
        text = domain + "\n" + _json.canonicalize(content)
        return _ed25519.verify(key, text.encode(), _decode(signature))
    except ValueError:
        return False


def follow_ring(
    ring: Iterable[Mapping[str, Any]], trusted: Keys, retired: Iterable[str]
) -> tuple[dict[str, bytes], set[str]]:
    """Return the trusted and the retired keys after applying a ring of unknown origin."""
    known, gone, entries = dict(trusted), set(retired), []
    for entry in ring:
        try:
            key = parse_key(str(entry.get("public_key")))
        except Invalid:
            continue
        if name_key(key) == entry.get("id"):
            entries.append((str(entry["id"]), str(entry["public_key"]), key, entry))
    for name, text, key, entry in entries:
        by = entry.get("by")
        if name in known or by in gone:
            continue
        content = {"by": by, "id": name, "public_key": text} | ({"since": entry["since"]} if "since" in entry else {})
        if _is_signed(known.get(str(by)), "askance-key-v1", content, entry.get("sig")):
            known[name] = key
    for name, text, _, entry in entries:
        by = entry.get("retired_by")
        if "retired" not in entry or by == name or by in gone:
            continue
        content = {"id": name, "public_key": text, "retired": entry["retired"], "retired_by": by}
        if _is_signed(known.get(str(by)), "askance-key-retired-v1", content, entry.get("retired_sig")):
            gone.add(name)
    return {name: key for name, key in known.items() if name not in gone}, gone


def keys_in_force(ring: Iterable[Mapping[str, Any]]) -> tuple[dict[str, bytes], set[str]]:
    """Return the keys of a ring that is trusted, and the ids of retired ones."""
    keys: dict[str, bytes] = {}
    gone: set[str] = set()
    for entry in ring:
        key = parse_key(str(entry.get("public_key")))
        if name_key(key) != entry.get("id"):
            raise Untrusted("cannot trust the engine keys: an id is not that of its key", code="untrusted")
        keys[name_key(key)] = key
        if entry.get("retired"):
            gone.add(name_key(key))
    return {name: key for name, key in keys.items() if name not in gone}, gone


_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII)


def parse_time(text: object) -> int:
    """Return the nanoseconds since 1970 of an RFC 3339 time, or raise ValueError."""
    found = _TIME.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError(f"{text!r:.40} is not a time")
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    seconds = calendar.timegm((year, month, day, hour, minute, second))
    if found[8]:
        shift = int(found[9]) * 3600 + int(found[10]) * 60
        seconds -= shift if found[8] == "+" else -shift
    return seconds * 10**9 + int((found[7] or "0").ljust(9, "0"))


def make_digest(request: Mapping[str, Any]) -> str:
    """Compute the digest of an approval request."""
    shown = dict(request)
    if shown.get("hidden") and shown.get("salt"):
        shown["input"] = conceal(str(shown["input"]), shown["hidden"], str(shown["salt"]))
        del shown["salt"]
    return "sha256:" + hashlib.sha256(_json.canonicalize(shown).encode()).hexdigest()


@dataclass(frozen=True)
class Verdict:
    """What a worker does with a task: run it, refuse it, acknowledge an expired one, return one for later."""

    action: Literal["run", "refuse", "expired", "early"]
    reason: str = ""


def check_task(record: Mapping[str, Any], tool: str, subject: str, keys: Keys, now: int) -> Verdict:
    """Check that an engine permits this worker to run the task now. In any doubt, refuse."""
    try:
        if isinstance(record.get("v"), int) and record["v"] > RECORD_VERSION:
            return Verdict("early", "the task is for newer workers")
        if record.get("v") != RECORD_VERSION:
            return Verdict("refuse", "it is not an event record")
        return _check(record, tool, subject, keys, now)
    except (KeyError, TypeError, ValueError, AttributeError) as err:
        return Verdict("refuse", f"the task cannot be read: {err!r:.200}")


def _check(record: Mapping[str, Any], tool: str, subject: str, keys: Keys, now: int) -> Verdict:
    call = record["call"]
    attempt, request = call.get("attempt") or {}, call.get("request")
    queue = (call["tool_name"], (call.get("decision") or {}).get("route", ""))
    started = any(attempt.get(k) for k in ("claim", "started_at")) or call.get("retry_at") or call.get("blocked")
    if (
        record.get("note")
        or (call["state"], call.get("placement")) != ("submitted", "remote")
        or started
        or queue != (tool, subject)
    ):
        return Verdict("refuse", f"it is not an unstarted remote attempt of the tool {tool}")
    grant = attempt.get("grant")
    if not grant:
        return Verdict("refuse", "it has no grant")
    if grant["key_id"] not in keys:
        if now >= parse_time(grant["expires"]):
            return Verdict("expired", "the grant has expired")
        return Verdict("refuse", f"the grant is signed by the unknown engine key {grant['key_id']!r:.64}")
    if not request:
        return Verdict("refuse", "it has no approval request")
    for name in (*KEY_PARTS, "tool_name", "input"):
        if not isinstance(call[name], str) or request[name] != call[name]:
            return Verdict("refuse", f"the approval request is about another {name}")
    signed = {k: v for k, v in grant.items() if k != "sig"}
    if not _is_signed(keys[grant["key_id"]], "askance-grant-v1", signed, grant.get("sig")):
        return Verdict("refuse", "the signature of the grant does not match")
    if request.get("hidden") and not request.get("salt"):
        return Verdict("refuse", "the arguments are redacted")
    expected = {name: call[name] for name in (*KEY_PARTS, "tool_name")} | {
        "v": 1,
        "digest": make_digest(request),
        "attempt": attempt["number"],
        "bundle": request["bundle"],
        "idempotency_key": idempotency_key(call),
    }
    for name, value in expected.items():
        if type(grant[name]) is not type(value) or grant[name] != value:
            return Verdict("refuse", f"the grant is for another {name}")
    if grant.get("route", "") != subject:
        return Verdict("refuse", "the grant is for another route")
    begin, end = parse_time(grant["not_before"]), parse_time(grant["expires"])
    if begin >= end:
        return Verdict("refuse", "the grant is never valid")
    if now < begin:
        return Verdict("early", "the grant is not valid yet; compare the clocks")
    if now >= end:
        return Verdict("expired", "the grant has expired")
    return Verdict("run")


def check_start(reply: Mapping[str, Any], request: Mapping[str, Any], keys: Keys) -> None:
    """Check that an engine permits the start for exactly this request, or raise Untrusted."""

    def refuse(why: str) -> Untrusted:
        return Untrusted(
            f"cannot start the call {request['tool_call_id']}: the reply {why}",
            code="untrusted",
            hint="Find out who answers in the name of the engine",
        )

    signed = {k: v for k, v in reply.items() if k != "sig"}
    if not _is_signed(keys.get(str(reply.get("key_id"))), "askance-start-v1", signed, reply.get("sig")):
        raise refuse("is not signed by an engine key that this worker trusts")
    expected = {name: request[name] for name in (*KEY_PARTS, "attempt", "claim", "request", "grant_nonce")}
    expected |= {"v": 1, "idempotency_key": idempotency_key(request)}
    for name, value in expected.items():
        if not value or type(reply.get(name)) is not type(value) or reply[name] != value:
            raise refuse(f"is about another {name}")
    for name in ("lease_ms", "heartbeat_ms"):
        if type(reply.get(name)) is not int:
            raise refuse(f"has no {name}")
