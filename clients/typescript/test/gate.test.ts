import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import { Allowed, type Call, Client, Forbidden, type Outcome, Unavailable, Unfinished } from "@askance/client";
import { anyOf, systemClock } from "../dist/http.js";
import { Server } from "./server.js";

let server: Server;
before(async () => { server = await Server.start(); });
after(() => server.close());

function allowed(outcome: Outcome): Allowed {
  assert.ok(outcome instanceof Allowed, JSON.stringify(outcome));
  return outcome;
}

const show = async (call: { session_id: string; reply_id?: string; tool_call_id?: string }): Promise<Call> => (await server.client("bot").show(call)).call;

test("allowed: it runs once and the result is stored", async () => {
  const gate = server.client("bot").gate("allowed", "r");
  const outcome = allowed(await gate.call("look", { at: "sky" }, { id: "c" }));
  const keys: string[] = [];
  assert.equal(await outcome.run((input: { at: string }, context) => { keys.push(context.idempotencyKey); return `saw ${input.at}`; }), "saw sky");
  const call = await show(outcome.call);
  assert.deepEqual([call.state, call.result?.state, call.result?.output], ["finished", "success", "saw sky"]);
  assert.match(keys[0] ?? "", /^ak_[0-9a-f]{64}$/);
  await assert.rejects(outcome.run(() => assert.fail("it ran twice")), { code: "unfinished" });
  const again = await server.client("bot").gate("allowed", "r").call("look", { at: "sky" }, { id: "c" });
  assert.ok(again.kind === "answered" && again.text === "saw sky");
});

test("denied by the policy", async () => {
  const outcome = await server.client("bot").gate("denied", "r").call("drop", { table: "users" });
  assert.ok(outcome.kind === "denied");
  assert.match(outcome.text, /tables are not dropped here/);
  const { cause, rule, allowed: instead, contact } = outcome.denial ?? {};
  assert.deepEqual({ cause, rule, instead, contact }, { cause: "deny", rule: "never", instead: "views", contact: "#data" });
  const drop = server.client("bot").tool({ name: "drop", run: () => assert.fail("it ran") });
  const result = await drop({ table: "users" }, { session: "denied", reply: "r2", id: "c" });
  assert.deepEqual([result.state, result.denial?.contact], ["denied", "#data"]);
  assert.match(outcome.call.tool_call_id ?? "", /^call_[0-9a-f]{32}$/);
});

test("asked and approved", async () => {
  const asked = server.client("bot").gate("approved", "r").call("refund", { cents: 5 }, { id: "c" });
  await server.client("ann").respond(await server.asked("approved", "c"), { kind: "approve" });
  assert.equal(await allowed(await asked).run((input: { cents: number }) => input.cents), 5);
});

test("edited: it runs with the edit", async () => {
  const asked = server.client("bot").gate("edited", "r").call("refund", '{"cents": 500}', { id: "c" });
  await server.client("ann").respond(await server.asked("edited", "c"), { kind: "approve", input: '{"cents":  1}' });
  const outcome = allowed(await asked);
  assert.equal(outcome.inputText, '{"cents":  1}');
  assert.equal(await outcome.run((input: { cents: number }) => input.cents), 1);
});

test("rejected with feedback, which the model gets", async () => {
  const asked = server.client("bot").gate("rejected", "r").call("refund", {}, { id: "c" });
  await server.client("ann").respond(await server.asked("rejected", "c"), { kind: "reject", feedback: "ask for the receipt" });
  const outcome = await asked;
  assert.ok(outcome.kind === "denied");
  assert.match(outcome.text, /ask for the receipt/);
});

test("a response in the tool's place: nothing runs", async () => {
  const refund = server.client("bot").tool({ name: "refund", run: () => assert.fail("it ran") });
  const asked = refund({}, { session: "answered", reply: "r", id: "c" });
  await server.client("ann").respond(await server.asked("answered", "c"), { kind: "respond", output: "paid by hand" });
  assert.deepEqual(await asked, { state: "success", text: "paid by hand", output: "paid by hand" });
});

test("three calls at once, decided out of order", async () => {
  const gate = server.client("bot").gate("three", "r");
  const ids = ["a", "b", "c"];
  const seen: string[] = [];
  const approve = async (id: string) => server.client("ann").respond(await server.asked("three", id), { kind: "approve" });
  let approved: Promise<unknown> = approve("c");
  for await (const outcome of gate.calls(ids.map((id) => ({ name: "refund", input: { id }, id })))) {
    await approved;
    seen.push(await allowed(outcome).run((input: { id: string }) => input.id));
    assert.equal(seen.at(-1), outcome.call.tool_call_id);
    const next = ids[ids.length - 1 - seen.length];
    if (next !== undefined) approved = approve(next);
  }
  assert.deepEqual(seen, [...ids].reverse());
});

test("a tool that only the runtime knows", async () => {
  const asked = server.client("bot").gate("unknown", "r").call("weather", {}, { id: "c" });
  await server.client("ann").respond(await server.asked("unknown", "c"), { kind: "approve" });
  assert.equal(await allowed(await asked).run(() => "sunny"), "sunny");
  const elsewhere = await server.client("bot").gate("unknown", "r2", { tools: ["look"] }).call("weather", {}).catch((err: unknown) => err);
  assert.ok(!(elsewhere instanceof Allowed), "the gate's tools do not have it");
});

test("calls that must run one after the other", async () => {
  const ran: string[] = [];
  for await (const outcome of server.client("bot").gate("serial", "r").calls(["a", "b", "c"].map((id) => ({ name: "count", input: {}, id })))) {
    ran.push(await allowed(outcome).run(() => outcome.call.tool_call_id ?? ""));
  }
  assert.deepEqual(ran, ["a", "b", "c"]);
});

for (const idempotent of [false, true]) {
  test(`interrupted after the decision and before the run: it does not run, idempotent: ${idempotent}`, async () => {
    const gate = server.client("bot").gate("late", `r ${idempotent}`);
    const outcomes = gate.calls(["a", "b"].map((id) => ({ name: "look", input: {}, id, idempotent })));
    const first = (await outcomes.next()).value as Outcome;
    allowed(first);
    await gate.interrupt("stop");
    const second = (await outcomes.next()).value as Outcome;
    assert.ok(second.kind === "denied", JSON.stringify(second));
    assert.equal(second.call.result?.state, "interrupted");
  });
}

test("a declared tool and a parent: people see both", async () => {
  const bot = server.client("bot");
  const parent = allowed(await bot.gate("parents", "r").call("look", {}, { id: "sub-agent" })).call;
  const weather = { name: "weather", description: "Tells the weather", input_schema: { type: "object", properties: { town: { type: "string" } }, required: ["town"] }, annotations: { read_only: true } };
  const gate = bot.gate("parents", "r/sub", { agent: "meteorologist", parent: { session_id: "parents", reply_id: "r", tool_call_id: parent.tool_call_id ?? "" }, tools: [weather] });
  const unfit = await gate.call("weather", { town: 7 }, { id: "unfit" });
  assert.ok(unfit.kind === "denied", "the input does not fit the schema");
  const asked = gate.call("weather", { town: "Bonn" }, { id: "c" });
  const request = await server.asked("parents", "c");
  assert.deepEqual([request.agent, request.parent?.tool_call_id], ["meteorologist", "sub-agent"]);
  assert.equal((await server.client("ann").show(request)).definition?.description, "Tells the weather");
  await server.client("ann").respond(request, { kind: "approve" });
  assert.equal(await allowed(await asked).run((input: { town: string }) => `sunny in ${input.town}`), "sunny in Bonn");
});

test("a wait that the server does not hold: a pause before the next request", async () => {
  const pauses: number[] = [];
  let now = 0;
  const clock = { ...systemClock, monotonic: () => now, sleep: async (ms: number) => void pauses.push(ms) };
  const replies = [{ held: 0, done: false }, { held: 25_000, done: false }, { held: 0, done: true }];
  const fetch = async () => {
    const reply = replies.shift();
    now += reply?.held ?? 0;
    return Response.json({ calls: [], done: reply?.done });
  };
  await new Client({ url: "http://127.0.0.1", token: "", fetch, clock }).gate("s", "r").wait(["c1"]);
  assert.deepEqual(pauses, [500]);
});

test("two approvers", async () => {
  const asked = server.client("bot").gate("two", "r").call("deploy", {}, { id: "c" });
  const request = await server.asked("two", "c");
  const first = await server.client("ann").respond(request, { kind: "approve" });
  assert.equal(first.state, "asking");
  assert.deepEqual((await server.client("bob").requests({ session: "two" })).map((c) => c.tool_call_id), ["c"]);
  await server.client("bob").respond(request, { kind: "approve" });
  allowed(await asked);
});

test("exact arguments: a large integer is not rounded", async () => {
  const text = '{"n": 9007199254740993, "x": 1.10}';
  const gate = server.client("bot").gate("exact", "r");
  const outcome = allowed(await gate.call("look", text, { id: "c" }));
  assert.equal(outcome.inputText, text);
  assert.throws(() => outcome.input, /9007199254740993 cannot be represented exactly/);
  for (const [n, readable] of [["9007199254740993.0", false], ["1.00000000000000000001e17", false], ["-90071992547409930e-1", false], ["1e-400", false], ["1e300", true], ["9007199254740992", true], ["0.10000000000000000001", true]] as const) {
    const call = allowed(await gate.call("look", `{"n":[${n}]}`, { id: n }));
    if (readable) assert.deepEqual(call.input, { n: [Number(n)] });
    else assert.throws(() => call.input, /cannot be represented exactly/, n);
  }
  await assert.rejects(outcome.run(() => assert.fail("it ran with another number")), RangeError);
  assert.equal((await show(outcome.call)).result?.state, "error");
});

test("an exception is reported, and so is a result that is too large", async () => {
  const gate = server.client("bot").gate("failing", "r");
  await assert.rejects(allowed(await gate.call("look", {}, { id: "a" })).run(() => { throw new Error("no light"); }), /no light/);
  const large = allowed(await gate.call("look", {}, { id: "b" }));
  await large.run(() => "x".repeat(600_000));
  const [a, b] = await Promise.all(["a", "b"].map((id) => show({ ...large.call, tool_call_id: id })));
  assert.deepEqual([a?.result?.state, a?.result?.output], ["error", "no light"]);
  assert.equal(b?.result?.state, "error");
  assert.match(String(b?.result?.output), /cannot be stored/);
});

test("abort while waiting: the reply is interrupted", async () => {
  const abort = new AbortController();
  const refund = server.client("bot").tool({ name: "refund", run: () => assert.fail("it ran") });
  const asked = refund({}, { session: "abort", reply: "r", id: "c", signal: abort.signal });
  const request = await server.asked("abort", "c");
  abort.abort(new Error("enough"));
  await assert.rejects(asked, /enough/);
  assert.equal((await show(request)).result?.state, "interrupted");
});

test("abort of a tool while the server is silent: its caller waits 5 seconds for the interrupt", { timeout: 300_000 }, async (t) => {
  const [abort, limit] = [new AbortController(), new AbortController()];
  const limits = t.mock.method(AbortSignal, "timeout", () => limit.signal);
  const sent: string[] = [];
  const fetch: typeof globalThis.fetch = (url, { signal } = {}) => new Promise((_, reject) => {
    sent.push(String(url).split("/").at(-1) ?? "");
    signal?.addEventListener("abort", () => reject(new Error("gone")));
    (sent.length === 1 ? abort : limit).abort(new Error("enough"));
    if (signal?.aborted) reject(new Error("gone"));
  });
  const look = new Client({ url: "http://127.0.0.1", token: "", fetch }).tool({ name: "look", run: () => assert.fail("it ran") });
  await assert.rejects(look({}, { session: "s", reply: "r", id: "c", signal: abort.signal }), /enough/);
  assert.deepEqual([sent, limits.mock.calls.map((c) => c.arguments)], [["calls", "interrupt"], [[5000]]]);
});

test("a result that is not JSON, and one that cannot be reported: the model is told that the tool ran", async () => {
  const big = server.client("bot").tool({ name: "look", run: () => 1n });
  assert.match((await big({}, { session: "no JSON", reply: "r", id: "c" })).text, /The tool ran, do not call it again/);
  assert.equal((await show({ session_id: "no JSON", reply_id: "r", tool_call_id: "c" })).result?.state, "error");
  const dead: typeof fetch = (url, init) => (String(url).endsWith("/result") ? Promise.reject(new Error("gone")) : fetch(url, init));
  const look = server.client("bot", { retryFor: 0, fetch: dead }).tool({ name: "look", run: () => "seen" });
  assert.match((await look({}, { session: "unreported", reply: "r", id: "c" })).text, /The tool ran, do not call it again/);
});

test("a timeout that nothing else keeps ends what follows it", { timeout: 300_000 }, async () => {
  setFlagsFromString("--expose-gc");
  const collector = setInterval(runInNewContext("gc") as () => void, 20);
  const { signal } = anyOf(AbortSignal.timeout(300), new AbortController().signal);
  await new Promise((resolve) => signal.addEventListener("abort", resolve)).finally(() => clearInterval(collector));
  assert.equal((signal.reason as Error).name, "TimeoutError");
});

test("arguments that JSON would change are not proposed", async () => {
  const gate = server.client("bot").gate("no-json", "r");
  for (const n of [NaN, -Infinity, 1n, new Set([1]), () => 1, [undefined], new Error("lost"), /a/, Promise.resolve(1), Symbol("a"), new Number(NaN), 2 ** 53, -1e30]) {
    await assert.rejects(gate.propose([{ name: "look", input: { n } }]), { code: "invalid", message: /arguments are no JSON/ });
  }
});

test("abort of gate.call: the request stays open", async () => {
  const abort = new AbortController();
  const asked = server.client("bot").gate("abort-call", "r").call("refund", {}, { id: "c", signal: abort.signal });
  const request = await server.asked("abort-call", "c");
  abort.abort(new Error("enough"));
  await assert.rejects(asked, /enough/);
  assert.equal((await show(request)).state, "asking");
});

test("abort while a tool runs: other calls of the reply stay open", async () => {
  const client = server.client("bot");
  const context = { session: "abort-tool", reply: "r" };
  const refund = client.gate(context.session, context.reply).call("refund", {}, { id: "other" });
  const request = await server.asked("abort-tool", "other");
  const abort = new AbortController();
  const look = client.tool({ name: "look", run: () => { abort.abort(new Error("enough")); abort.signal.throwIfAborted(); } });
  await assert.rejects(look({}, { ...context, id: "c", signal: abort.signal }), /enough/);
  assert.deepEqual([(await show({ ...request, tool_call_id: "c" })).result?.state, (await show(request)).state], ["interrupted", "asking"]);
  await server.client("ann").respond(request, { kind: "reject" });
  assert.equal((await refund).kind, "denied");
});

test("abort while it runs: reported as interrupted", async () => {
  const abort = new AbortController();
  const outcome = allowed(await server.client("bot").gate("abort-run", "r").call("look", {}, { id: "c" }));
  await assert.rejects(outcome.run((_, { signal }) => { abort.abort(new Error("enough")); signal.throwIfAborted(); }, { signal: abort.signal }), /enough/);
  assert.equal((await show(outcome.call)).result?.state, "interrupted");
});

test("a process that died in a run: the next one does not run the call again", async () => {
  const first = allowed(await server.client("bot").gate("died", "r").call("look", {}, { id: "c" })); // and it dies before the report
  await assert.rejects(server.client("bot").gate("died", "r").call("look", {}, { id: "c" }), (err) => err instanceof Unfinished && err.call?.tool_call_id === "c");
  assert.equal((await show(first.call)).state, "submitted");
  const again = allowed(await server.client("bot").gate("died", "r").call("look", {}, { id: "c", idempotent: true }));
  assert.equal(await again.run(() => "harmless"), "harmless");
});

test("the start of a call was recorded, but its reply got lost: the same client runs the call once", async () => {
  let lost = 2;
  const lossy: typeof fetch = async (url, init) => {
    const response = await fetch(url, init);
    if (String(url).endsWith("/begin") && lost-- > 0) throw new Error("gone");
    return response;
  };
  const client = server.client("bot", { retryFor: 0, fetch: lossy });
  const ask = () => client.gate("lost", "r").call("look", {}, { id: "c" });
  await assert.rejects(ask(), Unavailable);
  await assert.rejects(server.client("bot").gate("lost", "r").call("look", {}, { id: "c" }), Unfinished);
  await assert.rejects(ask(), Unavailable);
  const ends = await Promise.allSettled([ask(), ask()]);
  assert.deepEqual(ends.map((e) => (e.status === "fulfilled" ? "run" : (e.reason as Error).name)).sort(), ["Unfinished", "run"]);
});

test("a process that died while asking: the next one runs the call, which was approved in the meantime", async () => {
  const abort = new AbortController();
  const lost = server.client("bot").gate("asking", "r").call("refund", {}, { id: "c", signal: abort.signal });
  const request = await server.asked("asking", "c");
  abort.abort();
  await assert.rejects(lost);
  await server.client("ann").respond(request, { kind: "approve" });
  assert.equal(await allowed(await server.client("bot").gate("asking", "r").call("refund", {}, { id: "c" })).run(() => "paid"), "paid");
});

test("two identical calls at once: one runs", async () => {
  const ends = await Promise.allSettled([1, 2, 3].map(() => server.client("bot").gate("same", "r").call("look", {}, { id: "c" })));
  assert.deepEqual(ends.map((e) => (e.status === "fulfilled" ? "run" : (e.reason as Error).name)).sort(), ["Unfinished", "Unfinished", "run"]);
});

test("the same ids with other content are a conflict, and two calls need two ids", async () => {
  await server.client("bot").gate("conflict", "r").call("drop", { a: 1 }, { id: "c" });
  await assert.rejects(server.client("bot").gate("conflict", "r").call("drop", { a: 2 }, { id: "c" }), { name: "Conflict", code: "conflict", status: 409 });
  const twice = [{ name: "look", input: {}, id: "x" }, { name: "look", input: {}, id: "x" }];
  await assert.rejects(server.client("bot").gate("conflict", "r").calls(twice).next(), { code: "invalid" });
});

test("calls without ids get derived ones: the same after a restart", async () => {
  const run = async () => {
    const gate = server.client("bot").gate("derived", "r");
    const ids: string[] = [];
    for await (const o of gate.calls([{ name: "drop", input: {} }, { name: "drop", input: {} }])) ids.push(o.call.tool_call_id ?? "");
    return ids.sort();
  };
  const first = await run();
  assert.equal(new Set(first).size, 2);
  assert.deepEqual(await run(), first);
});

test("a token of another role, of another runtime, and no token", async () => {
  const run = () => assert.fail("it ran");
  await assert.rejects(server.client("ann").gate("role", "r").call("look", {}), Forbidden);
  await assert.rejects(server.client("bot", { token: "" }).gate("role", "r").call("look", {}), Forbidden);
  await server.client("bot").gate("mine", "r").call("drop", {}, { id: "c" });
  await assert.rejects(server.client("robot").gate("mine", "r").call("drop", {}, { id: "d" }), { code: "foreign" });
  const asked = server.client("bot").gate("role", "r").call("refund", {}, { id: "c" });
  const request = await server.asked("role", "c");
  await assert.rejects(server.client("bot").respond(request, { kind: "approve" }), Forbidden);
  await server.client("ann").respond(request, { kind: "reject" });
  assert.equal((await asked).kind, "denied");
  const result = await server.client("ann").tool({ name: "look", run })({}, { session: "role", reply: "r2" });
  assert.equal(result.state, "error");
});

test("an approval of what was not seen is refused", async () => {
  const asked = server.client("bot").gate("unseen", "r").call("refund", { cents: 1 }, { id: "c" });
  const request = await server.asked("unseen", "c");
  await assert.rejects(server.client("ann").respond({ ...request, digest: `sha256:${"0".repeat(64)}` }, { kind: "approve" }), { code: "digest_mismatch" });
  await server.client("ann").respond(request, { kind: "approve" });
  allowed(await asked);
});

test("preview: nothing is proposed", async () => {
  const reply = await server.client("bot").preview("preview", "r", [{ name: "drop", input: {}, id: "c" }, { name: "refund", input: {}, id: "d" }]);
  assert.deepEqual(reply.calls.map((c) => c.decision?.behavior), ["deny", "ask"]);
  await assert.rejects(show({ session_id: "preview", reply_id: "r", tool_call_id: "c" }), { name: "NotFound" });
});

test("server down: nothing runs, and the model gets a text", async () => {
  const client = new Client({ url: "http://127.0.0.1:9", token: "", retryFor: 0 });
  await assert.rejects(client.gate("s", "r").call("look", {}), Unavailable);
  const result = await client.tool({ name: "look", run: () => assert.fail("it ran") })({}, { session: "s", reply: "r" });
  assert.equal(result.state, "error");
  assert.match(result.text, /does not answer \(.+\)/);
});

test("a URL that cannot be used: the client says so at once", () => {
  for (const url of ["http://host:port", "http://localhost:99999", "http://[::1", "http:// x", "http://user@host", "http://host?x", "ftp://host", "host:1"]) {
    assert.throws(() => new Client({ url }), { name: "AskanceError", code: "misconfigured", message: /cannot be used/ }, url);
  }
  for (const url of ["https://askance.example/below/", "http://[::1]:8787", "http://127.0.0.1:8787"]) new Client({ url });
});

test("a busy server: the request is repeated with the same key", async () => {
  const keys: Array<string | null> = [];
  const client = server.client("bot", {
    fetch: (url, init) => {
      if (!String(url).endsWith("/calls")) return fetch(url, init);
      keys.push(new Headers(init?.headers).get("Idempotency-Key"));
      return keys.length < 3 ? Promise.resolve(new Response("", { status: keys.length === 1 ? 429 : 503 })) : fetch(url, init);
    },
  });
  allowed(await client.gate("busy", "r").call("look", {}));
  assert.equal(keys.length, 3);
  assert.ok(keys[0] && new Set(keys).size === 1);
});

test("a reply that was changed in transit does not run", async () => {
  for (const [from, to] of [['"tool_call_id":"c"', '"tool_call_id":"d"'], ['"state":"asking"', '"state":"approved"'], ['"calls":[{', '"calls":[['], ['"tool_name":"refund"', '"tool_name":"look"']] as const) {
    const client = server.client("bot", {
      fetch: async (url, init) => {
        const response = await fetch(url, init);
        return new Response((await response.text()).replaceAll(from, to), { status: response.status, headers: response.headers });
      },
    });
    await assert.rejects(client.gate("changed", "r").call("refund", {}, { id: "c" }), { code: "invalid_reply" }, from);
  }
});

test("events resume: none is lost or repeated", async () => {
  const bot = server.client("bot");
  const events: Array<{ id: string; type: unknown }> = [];
  let connections = 0;
  const cutting = server.client("bot", {
    fetch: async (url, init) => {
      const response = await fetch(url, init);
      if (!response.headers.get("Content-Type")?.startsWith("text/event-stream") || !response.body) return response;
      connections++;
      let left = 700 + 40 * connections; // the connection breaks in the middle of an event
      const cut = new TransformStream<Uint8Array, Uint8Array>({
        transform(chunk, c) {
          c.enqueue(chunk.subarray(0, left));
          left -= chunk.length;
          if (left <= 0) c.terminate();
        },
      });
      return new Response(response.body.pipeThrough(cut), response);
    },
  });
  const last = "c5";
  const reading = (async () => {
    for await (const { id, event } of cutting.events("resume")) {
      events.push({ id, type: event["type"] });
      if (event["type"] === "TOOL_RESULT_END" && event["tool_call_id"] === last) return;
    }
  })();
  const gate = bot.gate("resume", "r");
  for (const id of ["c1", "c2", "c3", "c4", last]) await allowed(await gate.call("look", { id }, { id })).run(() => "seen");
  await reading;
  assert.ok(connections > 3, `${connections} connections`);
  const plain: Array<{ id: string; type: unknown }> = [];
  for await (const { id, event } of bot.events("resume")) {
    plain.push({ id, type: event["type"] });
    if (plain.length === events.length) break;
  }
  assert.deepEqual(events, plain);
});

test("the stream of calls: open calls, ready, changes", async () => {
  const asked = server.client("bot").gate("stream", "r").call("refund", {}, { id: "c" });
  const request = await server.asked("stream", "c");
  const kinds: string[] = [];
  for await (const e of server.client("ann").callsStream({ session: "stream" })) {
    kinds.push(e.type === "call" ? e.call.state : e.type);
    if (e.type === "ready") await server.client("ann").respond(request, { kind: "approve" });
    if (e.type === "call" && e.call.state === "submitted") break;
  }
  assert.deepEqual([kinds[0], kinds[1], kinds.at(-1)], ["asking", "ready", "submitted"]);
  allowed(await asked);
});
