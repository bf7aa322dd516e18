"""The vectors that Go and both clients share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

import pytest

from askance import (
    Allowed,
    Answered,
    AskanceError,
    Denied,
    Proposal,
    _core,
    _ed25519,
    _grants,
    _json,
    _outcomes,
    _stream,
)
from askance._calls import ClientCore
from askance._core import GateCore, Op, Reply, Requests, Send
from askance._settings import Settings
from askance.types import Call

FOLDER = Path(__file__).resolve().parents[2] / "vectors"


def load(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    return content


def rows(name: str, part: str = "rows") -> pytest.MarkDecorator:
    found = load(name)[part]
    assert found
    return pytest.mark.parametrize("row", found, ids=lambda row: str(row.get("name", row)))


@rows("canonical.json")
def test_canonical(row: dict[str, Any]) -> None:
    if row.get("refused"):
        with pytest.raises(ValueError):  # noqa: PT011
            _json.canonicalize(_json.parse(row["json"]))
        return
    value = _json.parse(row["json"])
    assert _json.canonicalize(value) == row["canonical"]
    if row["name"] != "deep":  # as a tool gets the value and returns it
        assert _json.canonicalize(_json.parse(_json.write(value))) == row["canonical"]


@rows("digests.json")
def test_digest(row: dict[str, Any]) -> None:
    assert _grants.make_digest(_json.parse(row["request"])) == row["digest"]


@rows("grants.json")
def test_grant(row: dict[str, Any]) -> None:
    content = load("grants.json")
    keys = _grants.make_keys(content["keys"][name] for name in row["trusted"])
    now = _grants.parse_time(row["now"])
    verdict = _grants.check_task(_json.parse(row["record"]), content["tool"], row.get("subject", ""), keys, now)
    assert verdict.action == row["verdict"], verdict.reason


@rows("starts.json")
def test_start(row: dict[str, Any]) -> None:
    content = load("starts.json")
    keys = _grants.make_keys(content["keys"][name] for name in row["trusted"])
    reply = _json.parse(row["reply"])
    if row.get("ok"):
        _grants.check_start(reply, row["request"], keys)
        return
    with pytest.raises(AskanceError):
        _grants.check_start(reply, row["request"], keys)


@rows("keyrings.json")
def test_key_ring(row: dict[str, Any]) -> None:
    content = load("keyrings.json")
    trusted = _grants.make_keys(content["keys"][name] for name in row["trusted"])
    known, gone = _grants.follow_ring(row["ring"], trusted, row["retired"])
    assert (sorted(known), sorted(gone)) == (sorted(row["trusted_after"]), sorted(row["retired_after"]))


@rows("ids.json", "calls")
def test_call_id(row: dict[str, Any]) -> None:
    assert _core.idempotency_key(row) == row["idempotency_key"]
    ids = (row["session_id"], row["reply_id"], row["tool_call_id"])
    if "path" in row:
        assert _core.call_path(*ids) == row["path"]
        assert [unquote(p) for p in _core.call_path(*ids).split("/")[3:]] == list(ids)
        return
    with pytest.raises(AskanceError):
        _core.call_path(*ids)


@rows("ids.json", "derived")
def test_derived_id(row: dict[str, Any]) -> None:
    assert _core.derive_id(row["reply_id"], row["index"], row["name"], row["input"]) == row["id"]


@rows("calls.json")
def test_outcome(row: dict[str, Any]) -> None:
    key, want = load("calls.json")["key"], row["outcome"]
    gate = GateCore(Requests(), key["session_id"], key["reply_id"])

    def read() -> _outcomes.Outcome | None:
        [call] = gate.match("read", [Proposal("refund", "", key["tool_call_id"])], [_json.parse(row["call"])])
        return _outcomes.read_outcome(call, "refund")

    if want["kind"] == "error":
        with pytest.raises(AskanceError):
            read()
        return
    outcome = read()
    if want["kind"] == "run":
        assert isinstance(outcome, Allowed)
        assert outcome.input_text == want["input"]
    elif want["kind"] == "denied":
        assert isinstance(outcome, Denied)
        assert outcome.text == want["text"]
    elif want["kind"] == "answered":
        assert isinstance(outcome, Answered)
        assert outcome.output == want["output"]
    else:
        assert want["kind"] == "wait"
        assert outcome is None


@rows("errors.json")
def test_error(row: dict[str, Any]) -> None:
    reply = Reply(row["status"], row["headers"], row["body"].encode())
    with pytest.raises(AskanceError) as caught:
        _core.read_reply("try", reply)
    err, want = caught.value, row["error"]
    assert (err.code, err.retryable) == (want["code"], want["retryable"])
    if hint := want.get("hint"):
        assert str(err) == f"cannot try: {want['detail']}. {hint.capitalize()}"
    assert err.hint == want.get("hint", err.hint)
    assert (err.call is not None) == want.get("has_call", False)


def make_op(row: dict[str, Any]) -> Op[Any]:
    """The operation of a row of requests.json."""
    given = row["arguments"]
    requests = Requests()
    client = ClientCore(requests)
    if row["name"] == "requests":
        return client.list_requests(given["session_id"], "")
    if row["name"] == "keys":
        return requests.get("keys", "/v1/work/keys")
    if row["name"] == "next":
        return requests.post("next", "/v1/work/next", given, key=False)
    own = frozenset(given.get("external_tools", []))
    gate = GateCore(requests, given["session_id"], given["reply_id"], given.get("agent", ""), None, own)
    for tool in given.get("tools", []):
        gate.definitions[tool["name"]] = tool
    gate.parent = given.get("parent")
    key = (given["session_id"], given["reply_id"], given.get("tool_call_id"))
    proposals = [Proposal(c["name"], c["input"], c["id"]) for c in given.get("calls", [])]
    if row["name"] == "respond":
        text = {k: given.get(k, "") for k in ("feedback", "note", "to")}
        return client.respond(
            key, given["kind"], given["digest"], given.get("input"), text["feedback"], given.get("output"), "", "", None
        )
    if row["name"] == "wait":
        return gate.wait(given["tool_call_ids"], given["timeout_ms"] / 1000)
    if row["name"] == "begin":
        call = cast(Call, {"tool_call_id": given["tool_call_id"], "tool_name": "lookup"})
        return gate.claim(Allowed(call, {}, "{}"))
    ops: dict[str, Callable[[], Op[Any]]] = {
        "propose": lambda: gate.propose(proposals),
        "preview": lambda: gate.preview(proposals),
        "report": lambda: gate.report(given["tool_call_id"], given["tool_name"], given["output"], given["state"]),
        "interrupt": lambda: gate.interrupt(given["reason"]),
        "show": lambda: client.show(key),
    }
    return ops[row["name"]]()


@rows("requests.json")
def test_request(row: dict[str, Any]) -> None:
    send = make_op(row).send(None)
    assert isinstance(send, Send)
    if row["name"] == "begin":
        assert send.body is not None
        assert len(send.body["claim"]) == 32
        send.body["claim"] = "mine"
    target = Settings("", "").target(send)
    assert (send.method, target) == (row["method"], row["path"])
    assert send.body == row.get("body")
    assert bool(send.key) == row.get("idempotency_key", False)


@rows("streams.json")
def test_stream(row: dict[str, Any]) -> None:
    parser = _stream.Parser()
    found = [e for chunk in row["chunks"] for e in parser.feed(chunk.encode())]
    assert [{"id": i, "event": e, "data": d} for i, e, d in found] == row["events"]


@pytest.mark.parametrize(
    ("public", "message", "signature"),
    [
        (
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            "",
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
        ),
        (
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
            "72",
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
        ),
        (
            "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
            "af82",
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
        ),
        (
            "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
            "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b58909351fc9ac90b3ecfdfbc7c66431e0303dca179c138ac17ad9bef1177331a704",
        ),
    ],
)
def test_rfc_8032(public: str, message: str, signature: str) -> None:
    key, text, good = bytes.fromhex(public), bytes.fromhex(message), bytes.fromhex(signature)
    assert _ed25519.verify(key, text, good)
    assert not _ed25519.verify(key, text + b"x", good)
    for i in range(0, 64, 7):
        assert not _ed25519.verify(key, text, good[:i] + bytes([good[i] ^ 1]) + good[i + 1 :])
    order = (2**252 + 27742317777372353535851937790883648493).to_bytes(32, "little")
    larger = int.from_bytes(good[32:], "little") + int.from_bytes(order, "little")
    assert not _ed25519.verify(key, text, good[:32] + larger.to_bytes(32, "little"))


def test_deep_json_is_read_as_other_json_is() -> None:
    for text in ['{"a":[1,{"b":"x\\u00e9","c":[]}],"d":{},"e":-1.5e3}', " [ true , null ] ", '"x"', "17"]:
        assert _json._parse_deep(text) == json.loads(text)
    for text in [
        "",
        "[1",
        "[1,]",
        '{"a"}',
        '{"a":1,}',
        "[1]x",
        "{1:2}",
        "[01]",
        '{"a":1,"a":2}',
        "[" * 1001 + "]" * 1001,
        "nul",
        "]",
    ]:
        with pytest.raises(ValueError):  # noqa: PT011
            _json._parse_deep(text)
