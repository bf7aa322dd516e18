import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import { type Call, Client, type ClientOptions, idempotencyKey, readKeys, type Task, type WorkerOptions, type WorkerTool } from "@askance/client";
import type { EngineKey } from "../dist/api.js";
import { systemClock } from "../dist/http.js";
import { canonicalize } from "../dist/json.js";
import { Server } from "./server.js";
import { readVectors } from "./vectors.js";

let server: Server;
before(async () => { server = await Server.start(); });
after(() => server.close());

/** Changes requests and replies of the worker's operations. */
type Change = (operation: string, send: () => Promise<Response>, body: Record<string, unknown>, signal: AbortSignal | null | undefined) => Promise<Response>;

const changed = (change: Change): typeof fetch => (url, init) =>
  change(new URL(String(url)).pathname.split("/").at(-1) ?? "", () => fetch(url, init), JSON.parse(String(init?.body ?? "{}")) as Record<string, unknown>, init?.signal);

const rewrite = (from: string | RegExp, to: string) => async (send: () => Promise<Response>) => {
  const response = await send();
  return new Response((await response.text()).replace(from, to), { status: response.status, headers: response.headers });
};

/** Runs a worker while body runs. */
async function working(tools: WorkerTool[], body: (log: string[], stop: AbortController, run: Promise<void>) => Promise<void>, more: Partial<WorkerOptions> & ClientOptions = {}): Promise<string[]> {
  const log: string[] = [];
  const stop = new AbortController();
  const { engineKeys, slots, drain, ...client } = more;
  const worker = server.client("wendy", client).worker(tools, { engineKeys: engineKeys ?? [server.engineKey], slots: slots ?? 4, drain: drain ?? 20_000, log: (line) => log.push(line) });
  const run = worker.run({ signal: stop.signal });
  try {
    await Promise.race([body(log, stop, run), run.then(() => body)]);
  } finally {
    stop.abort();
    await run;
  }
  return log;
}

async function propose(session: string, name: string, input: unknown = {}, id = "c"): Promise<Call> {
  const asked = new Client({ url: server.url, token: server.tokens.bot, fetch: (url, init) => (String(url).endsWith("/calls") ? fetch(url, init) : Promise.reject(new Error("only the proposal"))), retryFor: 0 });
  await asked.gate(session, "r", { tools: [] }).call(name, input, { id }).catch(() => undefined);
  return (await server.client("bot").show({ session_id: session, reply_id: "r", tool_call_id: id })).call;
}

const finished = async (call: Call): Promise<Call> => {
  const gate = server.client("bot").gate(call.session_id, "r");
  const [now] = await gate.wait([call.tool_call_id ?? ""]);
  return now as Call;
};

/** Waits for a state of a call, using the changes that the server streams. */
async function until(call: Call, ok: (c: Call) => boolean): Promise<Call> {
  for await (const e of server.client("ann").callsStream({ session: call.session_id })) {
    if (e.type === "call" && e.call.tool_call_id === call.tool_call_id && ok(e.call)) return e.call;
  }
  throw new Error("the stream ended");
}

setFlagsFromString("--expose-gc");
/** Runs the garbage collector. */
const collect = runInNewContext("gc") as () => void;

const never = { name: "job", run: () => assert.fail("it ran") };

test("runs what is allowed, and what a person approved", async () => {
  const tasks: Task[] = [];
  const echo = (name: string) => ({ name, run: (input: { n: number }, task: Task) => { tasks.push(task); task.progress("half"); return { n: input.n }; } });
  await working([echo("job"), echo("ship")], async () => {
    const calls = await Promise.all([1, 2, 3].map((n) => propose("runs", "job", { n }, `c${n}`)));
    for (const [i, call] of (await Promise.all(calls.map(finished))).entries()) {
      assert.deepEqual([call.result?.state, call.result?.output], ["success", `{"n":${i + 1}}`]);
    }
    const asked = await propose("runs", "ship", { n: 4 }, "c4");
    await server.client("ann").respond(asked, { kind: "approve", input: '{"n":5}' });
    assert.equal((await finished(asked)).result?.output, '{"n":5}');
  });
  assert.equal(tasks.length, 4);
  assert.equal(new Set(tasks.map((t) => t.idempotencyKey)).size, 4);
});

test("keys from the server on loopback, and successors of the pinned key", async () => {
  await working([{ name: "job", run: () => "ok" }], async () => {
    assert.equal((await finished(await propose("keys", "job"))).result?.output, "ok");
  }, { engineKeys: "server" });
  assert.throws(() => new Client({ url: "http://192.0.2.1", token: "" }).worker([never], { engineKeys: "server" }), { code: "misconfigured" });
  assert.throws(() => server.client("wendy").worker([never], { engineKeys: [] }), { code: "misconfigured" });
});

test("keys that follow a retired key stay trusted", { timeout: 300_000 }, async () => {
  let later = 0;
  await working([{ name: "job", run: () => "ok" }], async () => {
    server.replaceKey();
    for (;;) {
      const ring = await (await fetch(`${server.url}/v1/work/keys`, { headers: { Authorization: `Bearer ${server.tokens.wendy}` } })).json() as { keys: Array<{ retired?: string }> };
      if (ring.keys.some((k) => k.retired)) break;
    }
    for (const session of ["rotated-1", "rotated-2", "rotated-3"]) {
      later += 11_000;
      assert.equal((await finished(await propose(session, "job"))).result?.output, "ok");
    }
  }, { clock: { ...systemClock, monotonic: () => performance.now() + later } });
});

test("a tampered grant does not run: the call stays open and the operator reads why", async () => {
  for (const [session, from, to, why] of [
    ["tampered-input", /\\"n\\":1/g, '\\"n\\":2', /not the ones that were approved/],
    ["tampered-sig", /"sig":"[^"]{4}/, '"sig":"AAAA', /signature of the grant does not match/],
    ["tampered-tool", /"grant":\{([^}]*)"tool_name":"job"/, '"grant":{$1"tool_name":"ship"', /signature of the grant does not match/],
  ] as const) {
    let returned: Call | undefined;
    await working([never], async () => {
      const call = await propose(session, "job", { n: 1 });
      returned = await until(call, (c) => c.returned !== undefined);
    }, { fetch: changed((operation, send) => (operation === "next" ? rewrite(from, to)(send) : send())) });
    assert.match(returned?.returned?.reason ?? "", why);
    assert.notEqual(returned?.state, "finished");
    await working([{ name: "job", run: () => "ok" }], async () => {
      await finished({ session_id: session, reply_id: "r", tool_call_id: "c" } as Call);
    });
  }
});

test("a worker with another engine's key runs nothing", async () => {
  const other = "ed25519:iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w";
  let call: Call | undefined;
  await working([never], async () => {
    call = await until(await propose("other-key", "job"), (c) => c.returned !== undefined);
    assert.match(call.returned?.reason ?? "", /does not know/);
  }, { engineKeys: [other] });
  await working([{ name: "job", run: () => "ok" }], async () => { await finished(call as Call); });
});

test("a start that no engine signed does not count", async () => {
  let starts = 0;
  const ran: string[] = [];
  const log = await working([{ name: "job", run: () => { ran.push("ran"); return "ok"; } }], async () => {
    const call = await finished(await propose("unsigned", "job"));
    assert.equal(call.result?.output, "ok");
  }, { fetch: changed((operation, send) => (operation === "start" && ++starts <= 2 ? rewrite(/"lease_ms":\d+/, '"lease_ms":3600000')(send) : send())) });
  assert.deepEqual(ran, ["ran"]);
  assert.equal(starts, 3);
  assert.match(log.join("\n"), /not proved/);
});

test("a start reply that is too late: the attempt is returned, and the next one runs", async () => {
  let late = 0;
  const clock = { ...systemClock, monotonic: () => performance.now() + late };
  const ran: number[] = [];
  await working([{ name: "job", run: (_, task) => { ran.push(task.attempt); return "ok"; } }], async () => {
    const call = await finished(await propose("late", "job"));
    assert.deepEqual([call.result?.output, call.attempt?.number, call.begun], ["ok", 2, 1]);
  }, { clock, fetch: changed(async (operation, send, body) => {
    const response = await send();
    if (operation === "start" && body["attempt"] === 1) late = 3_600_000;
    return response;
  }) });
  assert.deepEqual(ran, [2]);
});

test("no start reply is proved: the attempt is returned after ten seconds", async () => {
  let late = 0;
  const ran: number[] = [];
  await working([{ name: "job", run: (_, task) => { ran.push(task.attempt); return "ok"; } }], async () => {
    const call = await finished(await propose("unproved", "job"));
    assert.deepEqual([call.result?.output, call.attempt?.number, call.begun], ["ok", 2, 1]);
  }, { clock: { ...systemClock, monotonic: () => performance.now() + late }, fetch: changed((operation, send, body) => {
    if (operation !== "start" || body["attempt"] !== 1) return send();
    late += 6000;
    return rewrite(/"sig":"[^"]{4}/, '"sig":"AAAA')(send);
  }) });
  assert.deepEqual(ran, [2]);
});

// Four heartbeats are sent in a lease, and a worker counts as lost one second after its lease.
test("heartbeats keep the lease of a run that is longer", async () => {
  let beats = 0;
  let beaten = () => {};
  const kept = new Promise<void>((resolve) => { beaten = resolve; });
  await working([{ name: "frail", run: async () => { await kept; return "ok"; } }], async () => {
    const call = await finished(await propose("beats", "frail"));
    assert.deepEqual([call.result?.output, call.begun], ["ok", 1]);
  }, { fetch: changed((operation, send) => {
    if (operation === "heartbeat" && ++beats === 6) beaten();
    return send();
  }) });
});

test("a heartbeat that gets no reply delays no other", { timeout: 300_000 }, async () => {
  let beats = 0;
  let beaten = () => {};
  const kept = new Promise<void>((resolve) => { beaten = resolve; });
  const collector = setInterval(collect, 20); // a timeout that nothing holds is collected before it ends
  await working([{ name: "frail", run: async () => { await kept; return "ok"; } }], async () => {
    const call = await finished(await propose("lost-beats", "frail"));
    assert.deepEqual([call.result?.output, call.begun], ["ok", 1]);
  }, { fetch: changed((operation, send, _, signal) => {
    if (operation !== "heartbeat") return send();
    if (++beats === 6) beaten();
    return beats % 3 === 0 ? send() : new Promise((_resolve, reject) => signal?.addEventListener("abort", () => reject(signal.reason)));
  }) }).finally(() => clearInterval(collector));
});

test("the {} of a proxy is no reply: the result is sent again", async () => {
  let lost = 0;
  await working([{ name: "job", run: () => "ok" }], async () => {
    const call = await finished(await propose("proxy", "job"));
    assert.deepEqual([call.result?.output, call.begun, lost], ["ok", 1, 2]);
  }, { fetch: changed((operation, send) => (operation === "result" && ++lost < 2 ? Promise.resolve(Response.json({})) : send())) });
});

test("the time until the deadline is the engine's, and can be longer than a timer", async () => {
  let sent = () => {};
  const run = (_: never, { signal, progress }: Task) => new Promise((resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason));
    sent = () => resolve("ok");
    progress("the deadline has not passed");
  });
  await working([{ name: "timed", run }, { name: "slow", run }], async () => {
    for (const name of ["timed", "slow"]) {
      const call = await finished(await propose(`deadline-${name}`, name));
      assert.deepEqual([call.result?.output, call.begun], ["ok", 1]);
    }
  }, { clock: { ...systemClock, now: () => Date.now() + 90_000 }, fetch: changed(async (operation, send) => {
    const response = await send();
    if (operation === "progress") sent();
    return response;
  }) });
});

test("a task goes back to the queue until its grant has expired by the engine's clock", async () => {
  const day = 24 * 3600_000;
  for (const later of [0, day]) {
    let told: (body: Record<string, unknown>) => void = () => {};
    const acked = new Promise<Record<string, unknown>>((resolve) => { told = resolve; });
    await working([{ name: "job", run: () => "ok" }], async () => {
      const call = await propose(`ahead-${later}`, "job");
      assert.equal((await acked)["return"] ?? false, later === 0);
      await server.client("bot").gate(call.session_id, "r").interrupt("the other tests share the queue");
    }, { clock: { ...systemClock, now: () => Date.now() + day }, fetch: changed((operation, send, body) => {
      if (operation === "ack") told(body);
      if (operation === "heartbeat") return rewrite(/"at":"[^"]*"/, `"at":"${new Date(Date.now() + later).toISOString()}"`)(send);
      return send();
    }) });
  }
});

test("a flood of progress is bounded, and its last line arrives", async () => {
  const sent: unknown[] = [];
  const patient = { ...systemClock, sleep: (ms: number, signal?: AbortSignal) => (ms === 1000 && !signal ? new Promise<void>(() => {}) : systemClock.sleep(ms, signal)) }; // a busy machine sends the last lines in more than the second that they have
  const flood = { name: "job", run: (_: never, task: Task) => { for (let n = 0; n < 100_000; n++) task.progress(`line ${n}`); return "ok"; } };
  await working([flood], async () => {
    assert.equal((await finished(await propose("flood", "job"))).result?.output, "ok");
  }, { clock: patient, fetch: changed((operation, send, body) => {
    if (operation === "progress") sent.push(body["n"]);
    return send();
  }) });
  assert.equal(sent.at(-1), 100_000);
  assert.ok(sent.length <= 33, `${sent.length} lines were sent`);
});

test("an output that is not JSON: the result says that the tool ran", async () => {
  const circular: { self?: unknown } = {};
  circular.self = circular;
  await working([{ name: "job", run: () => circular }], async () => {
    const { result } = await finished(await propose("circular", "job"));
    assert.equal(result?.state, "error");
    assert.match(String(result?.output), /^the tool ran, but its output is not JSON: /);
  });
});

test("a call that is interrupted while it runs", async () => {
  let begun = () => {};
  const running = new Promise<void>((resolve) => { begun = resolve; });
  let why: unknown;
  const stopped = { name: "frail", run: (_: never, { signal }: Task) => { begun(); return new Promise((_, reject) => signal.addEventListener("abort", () => { why = signal.reason; reject(signal.reason); })); } };
  await working([stopped], async () => {
    const call = await propose("cancel", "frail");
    await running;
    await server.client("bot").gate("cancel", "r").interrupt("not needed");
    assert.equal((await finished(call)).result?.state, "interrupted");
  });
  assert.match(String(why), /the call is finished/);
});

test("an engine that cancels: the run ends, and its result is interrupted", async () => {
  const waits = { name: "frail", run: (_: never, { signal }: Task) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))) };
  await working([waits], async () => {
    const { result } = await finished(await propose("cancelled", "frail"));
    assert.deepEqual([result?.state, result?.output], ["interrupted", "not needed"]);
  }, { fetch: changed((operation, send) => (operation === "heartbeat" ? rewrite(/^\{/, '{"cancel":true,"reason":"not needed",')(send) : send())) });
});

test("an exception, a result that is too large, a number that is not exact", { timeout: 300_000 }, async () => {
  await working([{ name: "job", run: (input: { do: string }) => { if (input.do === "throw") throw new Error("no paper"); return "x".repeat(input.do === "large" ? 600_000 : 3_000_000); } }], async () => {
    const [thrown, large, larger, inexact] = await Promise.all([
      propose("errors", "job", { do: "throw" }, "a"), propose("errors", "job", { do: "large" }, "b"), propose("errors", "job", { do: "larger" }, "c"), propose("errors", "job", '{"do":"throw","n":9007199254740993}', "d"),
    ].map(async (call) => finished(await call)));
    assert.deepEqual([thrown?.result?.state, thrown?.result?.output], ["error", "no paper"]);
    for (const refused of [large, larger]) {
      assert.equal(refused?.result?.state, "error");
      assert.match(String(refused?.result?.output), /refused its result/);
    }
    assert.match(String(inexact?.result?.output), /cannot be represented exactly/);
  }, { fetch: (url, init) => {
    assert.ok(String(init?.body ?? "").length < 1_000_000, "the server closes the connection of a larger body, which looks like no reply");
    return fetch(url, init);
  } });
});

test("a server that does not answer: the worker says why and asks again", async () => {
  let asked = 0;
  const log = await working([{ name: "job", run: () => "ok" }], async () => {
    await finished(await propose("silent", "job"));
  }, { fetch: changed((operation, send) => (operation === "next" && ++asked === 1 ? Promise.reject(new TypeError("fetch failed", { cause: new Error("nothing listens") })) : send())) });
  assert.match(log.join("\n"), /does not answer \(nothing listens\)\. Check that askance serve runs there; asking again/);
});

test("lost replies: the tool runs once", async () => {
  const lost = new Map<string, number>();
  let runs = 0;
  await working([{ name: "job", run: () => { runs++; return "ok"; } }], async () => {
    assert.equal((await finished(await propose("lost", "job"))).result?.output, "ok");
  }, { fetch: changed(async (operation, send) => {
    const response = await send();
    const n = (lost.get(operation) ?? 0) + 1;
    lost.set(operation, n);
    if ((operation === "start" || operation === "result") && n <= 2) throw new TypeError("the connection broke");
    return response;
  }) });
  assert.equal(runs, 1);
});

test("a task that comes twice is not begun twice", async () => {
  let runs = 0;
  let first: string | undefined;
  await working([{ name: "job", run: () => { runs++; return "ok"; } }], async () => {
    await finished(await propose("twice", "job"));
    assert.equal((await finished(await propose("twice", "job", {}, "c2"))).result?.output, "ok");
  }, { fetch: changed(async (operation, send) => {
    const response = await send();
    if (operation !== "next") return response;
    const text = await response.text();
    const tasks = (/^\{"tasks":\[(.*)\]\}\s*$/s.exec(text) ?? [])[1];
    const twice = first && tasks ? text.replace('"tasks":[', () => `"tasks":[${first},`) : text; // the queue offers the first one again
    if (tasks) first ??= tasks;
    return new Response(twice, { status: response.status, headers: response.headers });
  }) });
  assert.equal(runs, 2);
});

test("a key that the file lists as retired is not trusted again", async () => {
  const { rows } = readVectors<{ rows: Array<{ name: string; ring: EngineKey[] }> }>("keyrings");
  const ring = rows.find((r) => r.name === "a successor")?.ring ?? [];
  const file = JSON.stringify({ v: 1, keys: ring.slice(0, 2).map((k, i) => ({ id: k.id, public_key: k.public_key.slice("ed25519:".length), ...(i > 0 ? { retired: "2026-01-01T00:00:00Z" } : {}) })) });
  assert.deepEqual([...(await readKeys([ring[1]?.public_key ?? "", file])).keys()], [ring[0]?.id]);
  const { tool, rows: grants } = readVectors<{ tool: string; rows: Array<{ name: string; now: string; record: string }> }>("grants");
  const genuine = grants.find((r) => r.name === "genuine");
  assert.ok(genuine && ring[0] && ring[1]);
  const record = genuine.record.replaceAll(ring[0].id, ring[1].id);
  const stop = new AbortController();
  const reasons: unknown[] = [];
  const engine = changed(async (operation, _, body) => {
    if (operation === "next") return new Response(`{"tasks":[{"task":"t","delivered":1,"record":${record}}]}`, { headers: { "Content-Type": "application/json" } });
    if (operation === "keys") return Response.json({ keys: ring });
    if (operation === "start") {
      reasons.push(body["refuse"]);
      stop.abort();
    }
    return Response.json({});
  });
  const clock = { ...systemClock, now: () => Date.parse(genuine.now) };
  const client = new Client({ url: "http://127.0.0.1", token: "", fetch: engine, clock });
  await client.worker([{ ...never, name: tool }], { engineKeys: [file], log: () => undefined }).run({ signal: stop.signal });
  assert.match(String(reasons[0]), /does not know/);
});

test("one process begins a grant once, even if an engine lets it start again", async () => {
  const { keys, tool, rows } = readVectors<{ keys: Record<string, string>; tool: string; rows: Array<{ name: string; now: string; record: string }> }>("grants");
  const genuine = rows.find((r) => r.name === "genuine");
  assert.ok(genuine && keys["first"]);
  const [x, d] = [keys["first"].slice("ed25519:".length), Buffer.alloc(32, 1).toString("base64url")];
  const signer = await crypto.subtle.importKey("jwk", { kty: "OKP", crv: "Ed25519", x, d }, "Ed25519", false, ["sign"]);
  const { call } = JSON.parse(genuine.record) as { call: Call };
  const key = { space: call.space, session_id: call.session_id, reply_id: call.reply_id ?? "", tool_call_id: call.tool_call_id ?? "" };
  let starts = 0;
  let runs = 0;
  const stop = new AbortController();
  const served: string[] = [];
  const engine = changed(async (operation, _, body) => {
    served.push(operation);
    switch (operation) {
      case "next":
        if (served.filter((o) => o === "next").length > 3) stop.abort();
        return new Response(`{"tasks":[${[1, 2].map((n) => `{"task":"t${n}","delivered":1,"record":${genuine.record}}`).join()}]}`, { headers: { "Content-Type": "application/json" } });
      case "start": {
        starts++;
        const reply = { ...key, v: 1, key_id: call.attempt?.grant?.key_id, attempt: 1, claim: body["claim"], request: body["request"], grant_nonce: body["grant_nonce"], fresh: true, lease_ms: 15_000, heartbeat_ms: 5000, idempotency_key: await idempotencyKey(key), at: genuine.now };
        const signed = await crypto.subtle.sign("Ed25519", signer, new TextEncoder().encode(`askance-start-v1\n${canonicalize(JSON.stringify(reply))}`));
        return Response.json({ ...reply, sig: Buffer.from(signed).toString("base64url") });
      }
      case "keys":
        return Response.json({ keys: [] });
    }
    return Response.json({ stored: true, state: "error" });
  });
  const clock = { ...systemClock, now: () => Date.parse(genuine.now) };
  const client = new Client({ url: "http://127.0.0.1", token: "", fetch: engine, clock });
  await client.worker([{ name: tool, run: () => { runs++; } }], { engineKeys: [keys["first"]], slots: 2, log: () => undefined }).run({ signal: stop.signal });
  assert.deepEqual([starts, runs], [2, 0], "its arguments have a number that JavaScript does not hold exactly");
  assert.equal(served.filter((o) => o === "result").length, 1);
  assert.ok(served.filter((o) => o === "ack").length >= 3);
});

test("a worker outlives replies that are not from an engine", async () => {
  let replies = 0;
  const log = await working([{ name: "job", run: () => "ok" }], async () => {
    assert.equal((await finished(await propose("strange", "job"))).result?.output, "ok");
  }, { clock: { ...systemClock, sleep: (ms, signal) => systemClock.sleep(ms / 100, signal) }, fetch: changed(async (operation, send) => {
    if (operation !== "next" || ++replies > 3) return send();
    const problem = { code: ["damaged", "internal"][replies - 1], detail: "later" };
    return replies === 3 ? new Response("<h1>Maintenance</h1>") : new Response(JSON.stringify(problem), { status: [503, 500][replies - 1] ?? 0, headers: { "Content-Type": "application/problem+json" } });
  }) });
  assert.equal(log.filter((line) => /asking again/.test(line)).length, 3);
});

test("values that JSON would change are not reported as a success", async () => {
  for (const [i, value] of [{ n: NaN }, [Infinity], new Map([["a", 1]]), 1n].entries()) {
    await working([{ name: "job", run: () => value }], async () => {
      const { result } = await finished(await propose(`lost-${i}`, "job"));
      assert.equal(result?.state, "error");
      assert.match(String(result?.output), /the tool ran, but its output is not JSON/);
    });
  }
});

test("a stopping worker finishes what runs", async () => {
  let begun = () => {};
  let release = () => {};
  const running = new Promise<void>((resolve) => { begun = resolve; });
  const released = new Promise<void>((resolve) => { release = resolve; });
  let call: Call | undefined;
  await working([{ name: "job", run: async () => { begun(); await released; return "done"; } }], async (_, stop, run) => {
    call = await propose("stop", "job");
    await running;
    stop.abort();
    release();
    await run;
  });
  assert.equal((await finished(call as Call)).result?.output, "done");
});

test("a stopped worker leaves no request behind", async () => {
  let acknowledged = () => {};
  const acknowledging = new Promise<void>((resolve) => { acknowledged = resolve; });
  let open = 0;
  let atTheEnd = -1;
  await working([{ name: "job", run: () => "done" }], async (_, stop, run) => {
    await finished(await propose("left", "job"));
    stop.abort();
    setTimeout(acknowledged, 50); // the worker has stopped long before, if it does not wait
    await run;
    atTheEnd = open;
  }, {
    fetch: changed(async (operation, send) => {
      open++;
      try {
        if (operation === "ack") await acknowledging;
        return await send();
      } finally {
        open--;
      }
    }),
  });
  assert.equal(atTheEnd, 0);
});

test("a worker that may not wait any longer stops: the outcome is unknown, and stays unknown", async () => {
  let begun = () => {};
  const running = new Promise<void>((resolve) => { begun = resolve; });
  let call: Call | undefined;
  const log = await working([{ name: "frail", run: (_: never, { signal }: Task) => { begun(); return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))); } }], async (_, stop, run) => {
    call = await propose("broken-off", "frail");
    await running;
    stop.abort();
    await run;
  }, { drain: 0 });
  assert.match(log.join("\n"), /broken off/);
  assert.equal((await until(call as Call, (c) => c.blocked !== undefined)).blocked, "unknown");
});

test("a token that does not name the tool ends the worker", async () => {
  const worker = server.client("wendy").worker([{ name: "look", run: () => "" }], { engineKeys: [server.engineKey] });
  await assert.rejects(worker.run(), { name: "Forbidden" });
  await assert.rejects(server.client("bot").worker([never], { engineKeys: [server.engineKey] }).run(), { name: "Forbidden" });
});

test("the server is killed while a call runs: the result is stored later", async () => {
  let begun = () => {};
  let release = () => {};
  const running = new Promise<void>((resolve) => { begun = resolve; });
  const released = new Promise<void>((resolve) => { release = resolve; });
  let runs = 0;
  await working([{ name: "job", run: async () => { runs++; begun(); await released; return "kept"; } }], async () => {
    const call = await propose("outage", "job");
    await running;
    await server.kill();
    release();
    await server.run();
    assert.equal((await finished(call)).result?.output, "kept");
  });
  assert.equal(runs, 1);
});
