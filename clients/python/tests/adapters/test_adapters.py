"""The cases that every adapter passes, against the real framework, a scripted model and a real server."""

from __future__ import annotations

import importlib
import json
import signal
import uuid
from pathlib import Path
from typing import Any

import pytest

from adapters.conftest import Place, Stage
from adapters.world import DRIVERS, Call
from askance import Conflict, Forbidden
from conftest import PATIENCE


@pytest.fixture(params=DRIVERS)
def stage(request: pytest.FixtureRequest, place: Place, tmp_path: Path) -> Stage:
    pytest.importorskip(DRIVERS[request.param])
    driver = importlib.import_module(f"adapters.driver_{request.param}")
    return Stage(place, driver, tmp_path, f"{request.param}-{uuid.uuid4().hex[:8]}")


def pay(call_id: str, amount: int) -> Call:
    return Call(call_id, "pay", {"amount": amount, "to": "ada"})


def done(amount: int) -> str:
    return f'pay done: {{"amount": {amount}, "to": "ada"}}'


def effect(amount: int) -> tuple[str, dict[str, Any]]:
    return ("pay", {"amount": amount, "to": "ada"})


# The eleven cases.


def test_allowed_at_once(stage: Stage) -> None:
    seen = stage.driver.run(stage.case(Call("c1", "look", {"what": "sky"})))
    assert seen.results == {"c1": 'look done: {"what": "sky"}'}
    assert stage.effects == [("look", {"what": "sky"})]
    result = stage.place.ann.find(stage.session, "c1")["result"]
    assert (result["state"], text(result["output"])) == ("success", 'look done: {"what": "sky"}')


def test_denied_by_policy(stage: Stage) -> None:
    seen = stage.driver.run(stage.case(Call("c1", "wipe", {"path": "/"})))
    assert "Agents delete nothing." in seen.results["c1"]
    assert stage.effects == []


def test_asked_and_approved(stage: Stage) -> None:
    with stage.running(pay("c1", 5)) as run:
        call = stage.place.ann.await_request(stage.session, "c1")
        assert stage.effects == []
        stage.place.ann.client.respond(call, "approve")
    assert run.result().results == {"c1": done(5)}
    assert stage.effects == [effect(5)]


def test_edited(stage: Stage) -> None:
    with stage.running(pay("c1", 5)) as run:
        stage.place.ann.answer(stage.session, "c1", "approve", input=json.dumps({"amount": 4, "to": "ada"}))
    assert run.result().results == {"c1": done(4)}
    assert stage.effects == [effect(4)]


def test_rejected_with_feedback(stage: Stage) -> None:
    with stage.running(pay("c1", 5)) as run:
        stage.place.ann.answer(stage.session, "c1", "reject", feedback="Ada is on holiday.")
    assert "Ada is on holiday." in run.result().results["c1"]
    assert stage.effects == []


def test_answered_in_place(stage: Stage) -> None:
    with stage.running(pay("c1", 5)) as run:
        stage.place.ann.answer(stage.session, "c1", "respond", output="I paid it in cash.")
    assert "I paid it in cash." in run.result().results["c1"]
    assert stage.effects == []


def test_three_parallel_calls_decided_out_of_order(stage: Stage) -> None:
    with stage.running(pay("c1", 1), pay("c2", 2), pay("c3", 3)) as run:
        for call_id in ("c1", "c2", "c3"):
            stage.place.ann.await_request(stage.session, call_id)
        stage.place.ann.answer(stage.session, "c3", "approve")
        stage.place.ann.answer(stage.session, "c1", "reject", feedback="not one")
        stage.place.ann.answer(stage.session, "c2", "respond", output="two by hand")
    results = run.result().results
    assert results["c3"] == done(3)
    assert "not one" in results["c1"]
    assert "two by hand" in results["c2"]
    assert stage.effects == [effect(3)]


def test_killed_while_asking_and_started_again(stage: Stage) -> None:
    first = stage.start_process(pay("c1", 5))
    stage.place.ann.await_request(stage.session, "c1")
    first.kill()
    first.join(PATIENCE)
    second = stage.start_process(pay("c1", 5))
    stage.place.ann.answer(stage.session, "c1", "approve")
    assert stage.finish(second).results == {"c1": done(5)}
    assert stage.effects == [effect(5)]


def test_killed_after_the_run_and_not_run_twice(stage: Stage) -> None:
    first = stage.start_process(pay("c1", 5), die=True)
    stage.place.ann.answer(stage.session, "c1", "approve")
    first.join(PATIENCE)
    assert first.exitcode == -signal.SIGKILL
    assert stage.effects == [effect(5)]
    second = stage.start_process(pay("c1", 5))
    assert "done" not in stage.finish(second).results["c1"]
    assert stage.effects == [effect(5)]
    assert stage.place.ann.find(stage.session, "c1")["state"] == "submitted"  # an operator resolves it


def test_engine_down(stage: Stage) -> None:
    case = stage.case(Call("c1", "look", {"what": "sky"}), patience=0.2)
    case.url = "http://127.0.0.1:9"  # the port discard: no server listens
    seen = stage.driver.run(case)
    assert "askance" in seen.results["c1"]
    assert stage.effects == []


def test_two_approvers(stage: Stage) -> None:
    with stage.running(Call("c1", "wire", {"amount": 7, "to": "ada"})) as run:
        stage.place.ann.answer(stage.session, "c1", "approve")
        call = stage.place.bob.await_request(stage.session, "c1", votes=1)
        assert stage.effects == []
        stage.place.bob.client.respond(call, "approve")
    assert run.result().results["c1"].startswith("wire done")
    assert stage.effects == [("wire", {"amount": 7, "to": "ada"})]


def test_failing_tool(stage: Stage) -> None:
    with stage.running(pay("c1", 5), fail=True) as run:
        stage.place.ann.answer(stage.session, "c1", "approve")
    run.exception()  # some frameworks end the run, others tell the model
    result = stage.place.ann.find(stage.session, "c1")["result"]
    assert result["state"] == "error"
    assert "the bank is closed" in text(result["output"])


# Problems that users of other approval systems reported.


def test_approver_sees_the_arguments_that_run(stage: Stage) -> None:
    with stage.running(pay("c1", 5), tamper=True) as run:
        call = stage.place.ann.await_request(stage.session, "c1")
        shown = json.loads(call["input"])
        stage.place.ann.client.respond(call, "approve")
    run.exception()
    assert stage.effects in ([], [("pay", shown)])


def test_decisions_are_not_matched_by_position(stage: Stage) -> None:
    with stage.running(pay("c1", 5), pay("c2", 5), pay("c3", 6)) as run:
        stage.place.ann.answer(stage.session, "c2", "reject", feedback="once is enough")
        stage.place.ann.answer(stage.session, "c3", "reject", feedback="not six")
        stage.place.ann.answer(stage.session, "c1", "approve")
    results = run.result().results
    assert results["c1"] == done(5)
    assert "once is enough" in results["c2"]
    assert "not six" in results["c3"]
    assert stage.effects == [effect(5)]


def test_unseen_call_is_not_approved(stage: Stage) -> None:
    with stage.running(pay("c1", 1), pay("c2", 2)) as run:
        seen = stage.place.ann.await_request(stage.session, "c1")
        unseen = stage.place.ann.await_request(stage.session, "c2")
        with pytest.raises(Conflict) as refused:
            stage.place.ann.client.respond(unseen, "approve", digest=seen["digest"])
        assert refused.value.code == "digest_mismatch"
        stage.place.ann.client.respond(seen, "approve")
        stage.place.ann.client.respond(unseen, "reject")
    assert run.result().results["c1"] == done(1)
    assert stage.effects == [effect(1)]


def test_only_named_approvers_count(stage: Stage) -> None:
    with stage.running(pay("c1", 5)) as run:
        call = stage.place.ann.await_request(stage.session, "c1")
        with pytest.raises(Forbidden):
            stage.place.eve.client.respond(call, "approve")
        assert stage.effects == []
        stage.place.ann.client.respond(call, "reject")
    run.result()
    assert stage.effects == []


def test_the_agent_cannot_approve_itself(stage: Stage) -> None:
    with stage.running(pay("c1", 5)) as run:
        call = stage.place.ann.await_request(stage.session, "c1")
        with pytest.raises(Forbidden):
            stage.place.bot.client.respond(call, "approve")
        assert stage.effects == []
        stage.place.ann.client.respond(call, "reject")
    run.result()
    assert stage.effects == []


def text(output: Any) -> str:
    return output if isinstance(output, str) else "".join(b.get("text", "") for b in output)
