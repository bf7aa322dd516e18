import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { fakeModel } from "@langchain/core/testing";
import { Command } from "@langchain/langgraph";
import { jsonSchema, tool as aiTool } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { AIMessage } from "langchain";
import * as z from "zod";

import { type Call, Client, Forbidden, type Response } from "@askance/client";
import { gateTools } from "@askance/client/ai-sdk";
import { scripted } from "./adapters/langchain.js";
import { withAISDK, withLangChain } from "./adapters/pages.js";
import { frameworks, type Input, type Scenario, script, type Seen } from "./adapters/scenario.js";
import { type Name, Server, tied } from "./server.js";

let server: Server;
let folder: string;
before(async () => {
  server = await Server.start();
  folder = mkdtempSync(join(tmpdir(), "askance-adapters-"));
});
after(async () => {
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

const fails = () => assert.fail("the tool ran");

/** Waits for the request of a call and responds to it. */
async function respond(session: string, id: string, response: Response, as: Name = "ann"): Promise<Call> {
  const request = await server.asked(session, id, as);
  await server.client(as).respond(request, response);
  return request;
}

/** An agent in a separate process; resolves with what its model saw, unless it was killed. */
function start(framework: string, session: string, tool: string, file: string, how = "") {
  const child = spawn(...tied(process.execPath, [fileURLToPath(new URL("adapters/agent.js", import.meta.url)), framework, session, tool, file, how]), {
    env: { ...process.env, ASKANCE_URL: server.url, ASKANCE_TOKEN: server.tokens.bot }, stdio: ["ignore", "pipe", "inherit"],
  });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (part: string) => { text += part; });
  const end = once(child, "close").then(() => (child.signalCode ? undefined : JSON.parse(text) as Record<string, string>));
  return { kill: () => child.kill("SIGKILL"), end };
}

for (const [framework, run] of Object.entries(frameworks)) {
  describe(framework, { concurrency: true }, () => {
    const sessionOf = (name: string) => `${framework} ${name}`;
    const scenario = (name: string, tool: string, more: Partial<Scenario> = {}): Scenario => ({
      client: server.client("bot"), session: sessionOf(name), calls: [{ id: "c", name: tool, input: { cents: 500 } }], run: fails, ...more,
    });

    test("allowed at once", async () => {
      const got: Input[] = [];
      const seen = await run(scenario("allowed", "look", { run: (_, input) => { got.push(input); return `saw ${input.cents}`; } }));
      assert.deepEqual([seen, got.map((i) => i.cents)], [{ c: "saw 500" }, [500]]);
      const { call } = await server.client("bot").show(await firstCall(sessionOf("allowed")));
      assert.deepEqual([call.result?.state, call.result?.output], ["success", "saw 500"]);
    });

    test("denied by policy", async () => {
      assert.match((await run(scenario("denied", "drop")))["c"] ?? "", /tables are not dropped here/);
    });

    test("asked and approved: the approver saw what ran", async () => {
      let got: Input | undefined;
      const running = run(scenario("approved", "refund", { run: (_, input) => { got = input; return "paid"; } }));
      const request = await respond(sessionOf("approved"), "c", { kind: "approve" });
      assert.deepEqual([await running, got], [{ c: "paid" }, JSON.parse(request.input ?? "")]);
    });

    test("edited: the tool saw the edit", async () => {
      let got: Input | undefined;
      const running = run(scenario("edited", "refund", { run: (_, input) => { got = input; return "paid less"; } }));
      await respond(sessionOf("edited"), "c", { kind: "approve", input: '{"cents": 1, "note": "less"}' });
      assert.deepEqual([await running, got], [{ c: "paid less" }, { cents: 1, note: "less" }]);
    });

    test("an edit that JavaScript cannot hold does not run", async () => {
      const running = run(scenario("inexact", "refund"));
      await respond(sessionOf("inexact"), "c", { kind: "approve", input: '{"cents": 9007199254740993}' });
      assert.match((await running)["c"] ?? "", /9007199254740993 cannot be represented exactly/);
    });

    test("rejected with feedback, which the model saw", async () => {
      const running = run(scenario("rejected", "refund"));
      await respond(sessionOf("rejected"), "c", { kind: "reject", feedback: "ask for the receipt" });
      assert.match((await running)["c"] ?? "", /ask for the receipt/);
    });

    test("answered in its place: the tool did not run", async () => {
      const running = run(scenario("answered", "refund"));
      await respond(sessionOf("answered"), "c", { kind: "respond", output: "paid by hand" });
      assert.deepEqual(await running, { c: "paid by hand" });
    });

    test("three calls in parallel, decided out of order and each by its id", async () => {
      const got: Record<number, string> = {};
      const calls = ["a", "b", "d"].map((id, i) => ({ id, name: "refund", input: { cents: i } }));
      const running = run(scenario("three", "refund", { calls, run: (_, input) => { got[input.cents] = "ran"; return `paid ${input.cents}`; } }));
      await respond(sessionOf("three"), "d", { kind: "approve" });
      await respond(sessionOf("three"), "a", { kind: "reject", feedback: "not this one" });
      await respond(sessionOf("three"), "b", { kind: "approve" });
      const seen = await running;
      assert.deepEqual(got, { 1: "ran", 2: "ran" });
      assert.deepEqual([seen["b"], seen["d"]], ["paid 1", "paid 2"]);
      assert.match(seen["a"] ?? "", /not this one/);
    });

    test("killed while asking, and started again: it runs once", async () => {
      const file = join(folder, `${framework} asking`);
      writeFileSync(file, "");
      const first = start(framework, sessionOf("killed asking"), "refund", file);
      await server.asked(sessionOf("killed asking"), "c");
      first.kill();
      assert.equal(await first.end, undefined);
      const second = start(framework, sessionOf("killed asking"), "refund", file);
      await respond(sessionOf("killed asking"), "c", { kind: "approve" });
      assert.deepEqual([await second.end, readFileSync(file, "utf8")], [{ c: "paid" }, "5\n"]);
    });

    test("killed after the run and before the report: it does not run twice", async () => {
      const file = join(folder, `${framework} ran`);
      writeFileSync(file, "");
      assert.equal(await start(framework, sessionOf("killed ran"), "look", file, "die").end, undefined);
      const seen = await start(framework, sessionOf("killed ran"), "look", file).end;
      assert.equal(readFileSync(file, "utf8"), "5\n");
      assert.match(seen?.["c"] ?? "", /another process began it/);
    });

    test("the server is down: nothing runs, and the model sees why", async () => {
      const client = new Client({ url: "http://127.0.0.1:9", token: "", retryFor: 0 });
      assert.match((await run(scenario("down", "look", { client })))["c"] ?? "", /does not answer/);
    });

    test("two approvers", async () => {
      const running = run(scenario("two", "deploy", { run: () => "deployed" }));
      assert.equal((await server.client("ann").respond(await server.asked(sessionOf("two"), "c"), { kind: "approve" })).state, "asking");
      await respond(sessionOf("two"), "c", { kind: "approve" }, "bob");
      assert.deepEqual(await running, { c: "deployed" });
    });

    test("an exception of the tool is reported", async () => {
      const session = sessionOf("exception");
      const seen = await run(scenario("exception", "look", { run: () => { throw new Error("no light"); } })).catch((err: unknown) => ({ c: String(err) }));
      assert.match(seen["c"] ?? "", /no light/);
      const { call } = await server.client("bot").show(await firstCall(session));
      assert.deepEqual([call.result?.state, call.result?.output], ["error", "no light"]);
    });

    test("the server is gone when the tool ran: the model gets the result and does not repeat the call", async () => {
      const dead: typeof fetch = (url, init) => (String(url).endsWith("/result") ? Promise.reject(new Error("gone")) : fetch(url, init));
      const client = server.client("bot", { retryFor: 0, fetch: dead });
      assert.deepEqual(await run(scenario("unreported", "look", { client, run: () => "moved" })), { c: "moved" });
    });

    test("an approval of one call runs no other, and another call's digest approves nothing", async () => {
      const got: number[] = [];
      const calls = [{ id: "a", name: "refund", input: { cents: 1 } }, { id: "b", name: "refund", input: { cents: 2 } }];
      const running = run(scenario("unseen", "refund", { calls, run: (_, input) => { got.push(input.cents); return "paid"; } }));
      const [a, b] = [await server.asked(sessionOf("unseen"), "a"), await server.asked(sessionOf("unseen"), "b")];
      await assert.rejects(server.client("ann").respond({ ...b, digest: a.digest ?? "" }, { kind: "approve" }), { code: "digest_mismatch" });
      await server.client("ann").respond(a, { kind: "approve" });
      await server.client("ann").respond(b, { kind: "reject" });
      await running;
      assert.deepEqual(got, [1]);
    });

    test("an agent cannot approve its own call, and not everyone can", async () => {
      const running = run(scenario("forged", "pay", { run: () => "paid" }));
      const request = await server.asked(sessionOf("forged"), "c");
      await assert.rejects(server.client("bot").respond(request, { kind: "approve" }), Forbidden);
      await assert.rejects(server.client("bob").respond(request, { kind: "approve" }), Forbidden);
      await server.client("ann").respond(request, { kind: "approve" });
      assert.deepEqual(await running, { c: "paid" });
    });

    test("an abort interrupts the call", async () => {
      const abort = new AbortController();
      const running = run(scenario("abort", "refund", { signal: abort.signal }));
      const ended = running.then(() => undefined, () => undefined); // frameworks differ in what they throw
      const request = await server.asked(sessionOf("abort"), "c");
      abort.abort();
      await ended;
      await server.client("ann").respond(request, { kind: "approve" }).catch(() => undefined);
      // A framework may throw before the interrupt of the adapter has arrived.
      for await (const { event } of server.client("bot").events(sessionOf("abort"))) if (event["type"] === "TOOL_RESULT_END") break;
      assert.equal((await server.client("bot").show(request)).call.result?.state, "interrupted");
    });
  });
}

/** The ids of a session's only call. */
async function firstCall(session: string): Promise<{ session_id: string; reply_id: string; tool_call_id: string }> {
  for await (const { event } of server.client("bot").events(session)) {
    if (event["reply_id"] && event["tool_call_id"]) return { session_id: session, reply_id: String(event["reply_id"]), tool_call_id: String(event["tool_call_id"]) };
  }
  throw new Error("no call");
}

test("LangChain: the graph pauses while a person decides, and runs the call after resume", async () => {
  const session = "LangChain pause";
  const got: number[] = [];
  const agent = scripted({ client: server.client("bot"), session, calls: [{ id: "c", name: "refund", input: { cents: 7 } }], run: (_, input) => { got.push(input.cents); return "paid"; } }, { pause: true });
  const config = { configurable: { thread_id: session } };
  const paused = await agent.invoke({ messages: [{ role: "user", content: "go" }] }, config) as { __interrupt__?: Array<{ value: { askance: { tool_call_id: string } } }> };
  assert.equal(paused.__interrupt__?.[0]?.value.askance.tool_call_id, "c");
  const still = await agent.invoke(new Command({ resume: true }), config) as typeof paused;
  assert.equal(still.__interrupt__?.length, 1, "no person has decided");
  await respond(session, "c", { kind: "approve" });
  const end = await agent.invoke(new Command({ resume: { approved: false } }), config);
  assert.equal(end.messages.at(-2)?.text, "paid");
  assert.deepEqual(got, [7]);
});

test("Vercel AI SDK: what changes or is lost after the proposal does not run", async () => {
  const got: unknown[] = [];
  const refund = aiTool({ inputSchema: z.object({ cents: z.any() }), execute: (input: { cents: unknown }) => { got.push(input.cents); return "paid"; } });
  const tools = gateTools({ refund }, { client: server.client("bot"), session: "changed" });
  const execute = tools.refund.execute as unknown as (input: unknown, context: unknown) => Promise<unknown>;
  const input = { cents: 5 };
  const running = execute(input, { toolCallId: "c", messages: [] });
  const request = await server.asked("changed", "c");
  input.cents = 500;
  await server.client("ann").respond(request, { kind: "approve" });
  assert.equal(await running, "paid");
  assert.deepEqual(got, [5]);
  for (const cents of [Infinity, new Map([["a", 1]])]) {
    await assert.rejects(execute({ cents }, { toolCallId: "d", messages: [] }), /no JSON: the value cents/);
  }
});

test("Vercel AI SDK: an edit runs as it was approved, or not at all", async () => {
  const got: unknown[] = [];
  const execute = (input: unknown) => { got.push(input); return "paid"; };
  const tools = gateTools({
    refund: aiTool({ inputSchema: jsonSchema({ type: "object" }), execute }), // checks nothing, as the tools of MCP servers
    pay: aiTool({ inputSchema: z.object({ to: z.string(), cents: z.number().transform((n) => n * 100) }), execute }),
  }, { client: server.client("bot"), session: "edits" });
  const run = async (name: "refund" | "pay", input: string) => {
    const running = (tools[name].execute as unknown as (input: unknown, context: unknown) => Promise<unknown>)({ cents: 500, to: "a" }, { toolCallId: name, messages: [] });
    await respond("edits", name, { kind: "approve", input });
    return running;
  };
  assert.equal(await run("refund", '{"cents": 1}'), "paid");
  assert.deepEqual(got, [{ cents: 1 }]);
  await assert.rejects(run("pay", '{"cents": 600, "to": "a"}'), /its schema changes them to .*60000/);
  assert.deepEqual(got, [{ cents: 1 }]);
});

test("Vercel AI SDK: a tool that runs elsewhere must be named", () => {
  const tools = { elsewhere: aiTool({ inputSchema: z.object({}), outputSchema: z.string() }) };
  assert.throws(() => gateTools(tools, { client: server.client("bot"), session: "s" }), /elsewhere has no execute/);
  assert.equal(gateTools(tools, { client: server.client("bot"), session: "s", ungated: ["elsewhere"] }).elsewhere, tools.elsewhere);
});

test("the programs of the how-to page", async () => {
  const page = readFileSync(new URL("../../../docs/howto/typescript-frameworks.md", import.meta.url), "utf8");
  const source = readFileSync(new URL("../test/adapters/pages.ts", import.meta.url), "utf8");
  const shown = [...page.matchAll(/```ts\n([^]*?)```/g)].map((m) => m[1]);
  assert.deepEqual(shown, [...source.matchAll(/\/\/ page .*\n([^]*?) *\/\/ end/g)].map((m) => m[1]?.replace(/^ {2}/gm, "")));

  process.env["ASKANCE_URL"] = server.url;
  process.env["ASKANCE_TOKEN"] = server.tokens.bot;
  const calls = [{ id: "c", name: "refund", input: { cents: 5 } }];
  const seen: Seen = {};
  const answer = script({ client: server.client("bot"), session: "", calls, run: fails }, seen);
  const first = withAISDK(new MockLanguageModelV4({ doGenerate: (o) => Promise.resolve(answer(o.prompt)) }));
  await respond("order-1042", "c", { kind: "approve" });
  assert.deepEqual([await first, seen], ["done", { c: "paid 5" }]);
  const second = withLangChain(fakeModel().respondWithTools([{ id: "c", name: "refund", args: { cents: 5 } }]).respond(new AIMessage("done")));
  await respond("order-1043", "c", { kind: "approve" });
  assert.equal(await second, "paid 5");
});
