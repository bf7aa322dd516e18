"""The operations of a client that do not belong to one model response."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from . import _json
from ._core import GateCore, Json, Op, Requests, Send, call_path, find_key, read_calls, segment
from ._errors import Invalid, make_invalid_reply
from ._outcomes import Proposal
from .types import Call, InfoReply, PreviewedCall, ShowReply, WhoamiReply

KINDS = ("approve", "reject", "respond", "skip", "delegate")


@dataclass
class ClientCore:
    """Reads and answers calls."""

    requests: Requests

    def list_requests(self, session: str, tool: str) -> Op[list[Call]]:
        """List the open approval requests, page by page."""
        query = [("state", "asking")]
        query += [("session_id", session)] if session else []
        query += [("tool_name", tool)] if tool else []
        return (yield from self.list_calls(query))

    def list_calls(self, query: Sequence[tuple[str, str]]) -> Op[list[Call]]:
        out: list[Call] = []
        after = 0
        while True:
            page = [("after", str(after))] if after else []
            body = yield from self.requests.get("list calls", "/v1/calls", [*query, *page])
            out += read_calls("list calls", body)
            following = body.get("next", 0)
            if not isinstance(following, int) or following <= after:
                return out
            after = following

    def respond(
        self,
        call: Any,
        kind: str,
        digest: str,
        input: str | Mapping[str, Any] | None,
        feedback: str,
        output: str | None,
        note: str,
        to: str,
        remember: Mapping[str, Any] | None,
    ) -> Op[Call]:
        """Respond to an approval request; the digest identifies the one that was seen."""
        if kind not in KINDS:
            raise Invalid(f"cannot respond with {kind!r}", code="invalid", hint="Use " + ", ".join(KINDS))
        if not digest and isinstance(call, Mapping):
            digest = str(call.get("digest") or "")
        if not digest:
            raise Invalid(
                "cannot respond: the digest of the request is missing",
                code="invalid",
                hint="Pass the call that client.requests() lists",
            )
        more = {"feedback": feedback, "note": note, "to": to, "remember": dict(remember) if remember else None}
        body: Json = {"digest": digest, "kind": kind} | {k: v for k, v in more.items() if v}
        if input is not None:
            body["input"] = _json.input_text(input)
        if output is not None:
            body["output"] = output
        key = find_key(call)
        return cast(
            Call, (yield from self.requests.post(f"respond to the call {key[2]}", call_path(*key) + "/response", body))
        )

    def show(self, call: Any) -> Op[ShowReply]:
        key = find_key(call)
        return cast(ShowReply, (yield from self.requests.get(f"show the call {key[2]}", call_path(*key))))

    def preview(self, name: str, input: Any, session: str) -> Op[PreviewedCall]:
        """Preview one call, in a reply in which nothing is ever proposed."""
        gate = GateCore(self.requests, session or "preview", "preview-" + secrets.token_hex(8))
        [proposal] = gate.identify([Proposal(name, input)])
        body = yield from gate.preview([proposal])
        calls = body.get("calls")
        if not isinstance(calls, list) or len(calls) != 1:
            raise make_invalid_reply("preview the call", "the reply lists no call")
        return calls[0]

    def whoami(self) -> Op[WhoamiReply]:
        return cast(WhoamiReply, (yield from self.requests.get("read the credentials", "/v1/whoami")))

    def info(self) -> Op[InfoReply]:
        return cast(InfoReply, (yield from self.requests.get("read about the engine", "/v1/info")))

    def events(self, session: str, reply: str) -> Send:
        query = (("reply_id", reply),) if reply else ()
        return Send(
            f"follow the session {session}", "GET", f"/v1/sessions/{segment(session, 'session id')}/events", query
        )

    def calls_stream(self, session: str, tool: str) -> Send:
        query = [("session_id", session)] if session else []
        query += [("tool_name", tool)] if tool else []
        return Send("follow the calls", "GET", "/v1/calls/stream", tuple(query))
