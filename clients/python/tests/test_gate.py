"""Each outcome of a proposed call, against a real server."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

import askance
from askance import Allowed, Answered, Denied
from conftest import Server


def test_allowed(server: Server, session: str) -> None:
    client = server.client()
    gate = client.gate(session, "r1")
    text = '{"n": 9007199254740993, "rate": 1.10}'
    outcome = gate.call("lookup", text, id="c1")
    assert isinstance(outcome, Allowed)
    assert (outcome.input_text, outcome.input["n"]) == (text, 9007199254740993)
    assert outcome.run(lambda given: {"found": given["n"]}) == {"found": 9007199254740993}
    shown = client.show(outcome)["call"]
    assert (shown["state"], shown["result"]["state"], shown["result"]["output"]) == (
        "finished",
        "success",
        '{"found":9007199254740993}',
    )
    again = gate.call("lookup", text, id="c1")
    assert isinstance(again, Answered)
    assert again.output == '{"found":9007199254740993}'


def test_denied(server: Server, session: str) -> None:
    outcome = server.client().gate(session, "r1").call("drop", {"table": "users"}, id="c1")
    assert isinstance(outcome, Denied)
    assert "Dropping tables is not allowed here." in outcome.text
    assert outcome.denial is not None
    assert outcome.denial["rule"] == "drops"
    assert "session_id" not in repr(outcome)


def test_approved(server: Server, session: str) -> None:
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(server.client().gate(session, "r1").call, "refund", {"cents": 5}, id="c1")
        server.respond(session)
        outcome = waiting.result()
    assert isinstance(outcome, askance.RunnableCall)
    assert outcome.run(lambda given: given["cents"]) == 5


def test_edited(server: Server, session: str) -> None:
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(server.client().gate(session, "r1").call, "refund", {"cents": 500}, id="c1")
        server.respond(session, input={"cents": 5})
        outcome = waiting.result()
    assert isinstance(outcome, Allowed)
    assert outcome.input == {"cents": 5}


def test_answered(server: Server, session: str) -> None:
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(server.client().gate(session, "r1").call, "refund", {"cents": 500}, id="c1")
        server.respond(session, "respond", output="done by hand")
        outcome = waiting.result()
    assert isinstance(outcome, Answered)
    assert outcome.output == "done by hand"


def test_arguments_that_are_no_object_are_not_proposed(server: Server, session: str) -> None:
    """A list of pairs would become an object, and people would see other arguments than the model wrote."""
    gate = server.client().gate(session, "r1")
    for arguments in ([["a", 1]], [], None, 3, True):
        with pytest.raises(askance.Invalid, match="cannot use the arguments"):
            gate.call("lookup", cast(Any, arguments), id="c1")


def test_a_text_that_is_no_json_is_denied_on_record(server: Server, session: str) -> None:
    """What the model wrote is in the journal, and the model is told what is wrong."""
    gate = server.client().gate(session, "r1")
    for n, text in enumerate(('{"a": 1', '{"a": 1, "a": 2}', "", "nonsense", '{"a": "\\ud800"}', '{"a": NaN}')):
        outcome = gate.call("lookup", text, id=f"c{n}")
        assert isinstance(outcome, Denied)
        assert (outcome.state, outcome.call["input"]) == ("error", text)
