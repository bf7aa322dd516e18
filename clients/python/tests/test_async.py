"""The asynchronous client: several calls at once, decided out of order, and tools from type hints."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import askance
from askance import Allowed, Answered, AsyncClient, Client, Denied, Proposal
from conftest import PATIENCE, Server


def test_calls_decided_out_of_order(server: Server, session: str) -> None:
    """Each decision reaches its call, in any order of the responses."""

    async def story() -> list[Any]:
        async with (
            AsyncClient(server.url, server.tokens["bot"]) as bot,
            AsyncClient(server.url, server.tokens["ann"]) as ann,
        ):
            gate, out = bot.gate(session, "r1"), []
            waiting = gate.calls([Proposal("refund", {"n": i}, i) for i in ("c1", "c2", "c3")])
            first = asyncio.ensure_future(anext(waiting))
            await asyncio.to_thread(server.await_call, session, lambda c: c["tool_call_id"] == "c3" and is_asked(c))
            requests = {r["tool_call_id"]: r for r in await ann.requests(session=session)}
            await ann.respond(requests["c3"], "approve", input={"n": "edited"})
            out.append(await first)
            await ann.respond(requests["c1"], "reject", feedback="too much")
            out.append(await anext(waiting))
            await ann.respond(requests["c2"], "respond", output="by hand")
            return [*out, *[outcome async for outcome in waiting]]

    third, first, second = asyncio.run(story())
    assert isinstance(first, Denied)
    assert "too much" in first.text
    assert isinstance(second, Answered)
    assert second.output == "by hand"
    assert isinstance(third, Allowed)
    assert (third.id, third.input) == ("c3", {"n": "edited"})


def is_asked(call: Any) -> bool:
    return bool(call["state"] == "asking")


def test_serial_calls_do_not_wait_for_each_other_for_ever(server: Server, session: str) -> None:
    """If two calls must not overlap, the second is decided only after the first has its result."""
    ran = []
    for outcome in server.client().gate(session, "r1").calls([Proposal("lookup", {"n": i}) for i in range(3)]):
        assert isinstance(outcome, askance.RunnableCall)
        ran.append(outcome.run(lambda given: given["n"]))
    assert ran == [0, 1, 2]


def test_two_approvers(server: Server, session: str) -> None:
    async def story() -> str:
        async with AsyncClient(server.url, server.tokens["bot"]) as bot:
            running = asyncio.create_task(bot.gate(session, "r1").run("transfer", {}, lambda given: "moved", id="c1"))
            await asyncio.to_thread(server.respond, session, by="ann")
            request = await asyncio.to_thread(server.await_call, session, lambda c: bool(c.get("votes")))
            assert not running.done()
            await asyncio.to_thread(server.client("bob").respond, request, "approve")
            return (await running).text

    assert asyncio.run(story()) == "moved"


def test_gated_functions(server: Server, session: str) -> None:
    """Wrapped functions are proposed with their definitions, even several at once, and run unchanged."""
    seen: list[tuple[str, int]] = []

    async def story() -> list[Any]:
        async with AsyncClient(server.url, server.tokens["bot"]) as client:

            @client.tool
            async def lookup(order: str, cents: int = 5) -> int:
                """Look an order up."""
                seen.append((order, cents))
                return cents

            @client.tool(name="drop")
            def drop_table(table: str) -> None:
                """Drop a table."""
                pytest.fail("it ran")

            async with client.gate(session, "r1"):
                found = await asyncio.gather(lookup("a"), lookup(order="a", cents=2**60 + 1), lookup("a"))
                with pytest.raises(askance.CallDenied, match="not allowed here"):
                    await drop_table("users")
            with pytest.raises(askance.Invalid, match="no gate"):
                await lookup("b")
            return list(found)

    assert asyncio.run(story()) == [5, 2**60 + 1, 5]
    assert sorted(seen) == [("a", 5), ("a", 5), ("a", 2**60 + 1)]


def test_gated_function_of_the_synchronous_client(server: Server, session: str) -> None:
    client = server.client()

    @client.tool(idempotent=True, read_only=True)
    def lookup(order: str) -> dict[str, str]:
        """Look an order up."""
        return {"order": order}

    assert lookup.__doc__ == "Look an order up."
    with client.gate(session, "r1", tools=[lookup]) as gate:
        assert lookup("a") == {"order": "a"}
        result = gate.run(lookup, '{"order": "b"}', id="c2")
        assert (result.state, result.text) == ("success", '{"order":"b"}')
        assert gate.run("lookup", '{"order": "b"}', id="c4").text == '{"order":"b"}'
        unknown = gate.run("delete", "{}", id="c5")  # models invent names
        assert (unknown.id, unknown.name, unknown.state) == ("c5", "delete", "error")
        assert unknown.text.startswith("The tool did not run: cannot run delete: the gate has no function for it. Give")
        wrong = gate.run(lookup, '{"order": 7}', id="c3")
        assert wrong.state == "error"
        assert "7" in wrong.text


def test_sub_agent_names_its_parent(server: Server, session: str) -> None:
    client = server.client()
    parent = client.gate(session, "r1").call("lookup", {}, id="c1")
    child = client.gate(session, "r2", parent=parent, agent="helper").call("lookup", {"n": 2}, id="c1")
    assert child.call["parent"]["tool_call_id"] == "c1"
    assert child.call["agent"] == "helper"


def test_preview_proposes_nothing(server: Server, session: str) -> None:
    client = server.client()
    assert client.preview("refund", {"n": 1}, session=session)["decision"]["behavior"] == "ask"
    assert server.client("ann").requests(session=session) == []
    assert client.whoami()["roles"] == ["runtime"]


def test_settings_of_the_environment(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    monkeypatch.setenv("ASKANCE_URL", server.url + "/")
    monkeypatch.setenv("ASKANCE_TOKEN", server.tokens["bot"])
    with Client() as client:
        assert client.whoami()["name"] == "bot"
        assert client.info()["engine"]
    for bad in ("", "127.0.0.1:1", "ftp://x", "http://x?y", "unix://x"):
        monkeypatch.delenv("ASKANCE_URL")
        if bad:
            with pytest.raises(askance.Invalid):
                Client(bad)
        monkeypatch.setenv("ASKANCE_URL", "http://x")
    with pytest.raises(askance.Invalid, match="token"):
        Client(server.url, "a\nb")


def test_unix_socket(server: Server, session: str) -> None:
    url, token = f"unix://{server.socket}", server.tokens["bot"]
    with Client(url, token) as client:
        assert client.whoami()["name"] == "bot"
        assert isinstance(client.gate(session, "r1").call("lookup", {}, id="c1"), askance.Allowed)

    async def main() -> None:
        async with AsyncClient(url, token) as client:
            assert (await client.whoami())["name"] == "bot"
            assert (await client.info())["engine"]

    asyncio.run(main())
    with pytest.raises(askance.Unavailable, match="unix:///nonexistent/s does not answer"):
        Client("unix:///nonexistent/s", patience=0).whoami()


def test_worker_over_a_unix_socket(server: Server, session: str) -> None:
    """A worker of the synchronous client uses the socket, too."""
    with Client(f"unix://{server.socket}", server.tokens["wendy"]) as client:

        def job() -> str:
            worker.stop()
            return "done"

        worker = client.worker([client.tool(job)], engine_keys=server.engine_key)
        server.client().gate(session, "r1", tools=[]).propose([askance.Proposal("job", {}, "c1")])
        worker.run()
    [call] = server.client().gate(session, "r1").wait("c1", timeout=10)
    assert call["result"]["output"] == "done"


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
@pytest.mark.parametrize("is_parent", [False, True])
def test_socket_that_others_could_replace(tmp_path: Path, mode: int, is_parent: bool) -> None:
    folder = tmp_path / "folder"
    folder.mkdir(0o700)
    (tmp_path if is_parent else folder).chmod(mode)
    client = Client(f"unix://{folder}/s", patience=0)
    # The folder belongs to this user: in a parent with the sticky bit, others cannot replace it.
    expected = askance.Unavailable if is_parent and mode & 0o1000 else askance.Untrusted
    with pytest.raises(expected):
        client.whoami()


def test_links_to_a_socket(tmp_path: Path) -> None:
    opened, mine = tmp_path / "open", tmp_path / "mine"
    for folder in (opened, mine):
        folder.mkdir(0o700)
    opened.chmod(0o777)
    (opened / "near").symlink_to(mine)  # others can point it elsewhere
    (opened / "inner").mkdir()
    links = {"far": opened / "near", "near": mine, "loop": tmp_path / "loop", "deep": opened / "inner"}
    for name, target in links.items():
        (tmp_path / name).symlink_to(target)
    expectations: dict[str, type[askance.AskanceError]] = {
        "far": askance.Untrusted,
        "near": askance.Unavailable,
        "loop": askance.Untrusted,
        "deep/../near": askance.Untrusted,  # not near beside the link
        "mine/../near": askance.Unavailable,
    }
    for name, expected in expectations.items():
        with pytest.raises(expected):
            Client(f"unix://{tmp_path}/{name}/s", patience=0).whoami()


def test_one_client_in_several_event_loops(server: Server, session: str) -> None:
    """Runner.run_sync and asyncio.run use a new loop each time, where the connections of the old one fail."""
    client = AsyncClient(server.url, server.tokens["bot"])

    async def look(call: str) -> str:
        return (await client.gate(session, "r1").run("lookup", {}, lambda given: "found", id=call)).text

    assert [asyncio.run(look("c1")), asyncio.run(look("c2"))] == ["found", "found"]


@pytest.mark.parametrize("unix", [False, True])
def test_many_waiting_requests_do_not_block_others(tmp_path: Path, unix: bool) -> None:
    """Each call that waits for a person holds a connection, however many there are."""
    count = 120

    async def run() -> None:
        arrived, all_arrived = 0, asyncio.Event()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal arrived
            await reader.readuntil(b"\r\n\r\n")
            arrived += 1
            if arrived == count:
                all_arrived.set()
            await all_arrived.wait()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
            await writer.drain()
            writer.close()

        path = str(tmp_path / "s")
        server = await (
            asyncio.start_unix_server(answer, path) if unix else asyncio.start_server(answer, "127.0.0.1", 0)
        )
        url = f"unix://{path}" if unix else f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server, AsyncClient(url, "", patience=0) as client:
            await asyncio.wait_for(asyncio.gather(*(client.whoami() for _ in range(count))), PATIENCE)

    asyncio.run(run())
