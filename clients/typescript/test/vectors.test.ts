import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { runInNewContext } from "node:vm";

import type { Call, EngineKey } from "../dist/api.js";
import { AskanceError, checkStart, checkTask, Client, deriveCallID, digestOf, followKeys, idempotencyKey, readKeys, type CallKey } from "@askance/client";
import { readOutcome, textOf } from "../dist/gate.js";
import { canonicalize, parseStrict, writeJSON } from "../dist/json.js";
import { readStream } from "../dist/stream.js";
import { readVectors } from "./vectors.js";

test("canonical forms", () => {
  for (const row of readVectors<{ rows: Array<{ name: string; json: string; canonical?: string; refused?: boolean }> }>("canonical").rows) {
    if (row.refused) assert.throws(() => canonicalize(row.json), row.name);
    else {
      assert.equal(canonicalize(row.json), row.canonical, row.name);
      assert.equal(canonicalize(writeJSON(JSON.parse(row.json))), row.canonical, `${row.name}, as a tool gets and returns it`);
    }
  }
});

test("values with a JSON form are written, from every realm", () => {
  const value = { at: new Date(0), left: undefined, bare: Object.assign(Object.create(null), { n: [null, -0] }), other: runInNewContext("({ n: [1] })") as unknown, bytes: Buffer.from("a") };
  assert.equal(writeJSON(value), '{"at":"1970-01-01T00:00:00.000Z","bare":{"n":[null,0]},"other":{"n":[1]},"bytes":{"type":"Buffer","data":[97]}}');
});

test("digests", async () => {
  for (const row of readVectors<{ rows: Array<{ name: string; request: string; digest: string }> }>("digests").rows) {
    assert.equal(await digestOf(parseStrict(row.request)), row.digest, row.name);
  }
});

interface Keyed {
  keys: Record<string, string>;
}

const trusting = async (file: Keyed, names: string[]) => readKeys(names.map((n) => file.keys[n] ?? ""));

test("grants", async () => {
  const file = readVectors<Keyed & { tool: string; rows: Array<{ name: string; trusted: string[]; subject?: string; now: string; record: string; verdict: string }> }>("grants");
  for (const row of file.rows) {
    const got = await checkTask(parseStrict(row.record), { tool: file.tool, subject: row.subject ?? "", keys: await trusting(file, row.trusted), now: Date.parse(row.now) });
    assert.equal(got.verdict, row.verdict, `${row.name}: ${got.reason}`);
  }
});

test("start replies", async () => {
  const file = readVectors<Keyed & { rows: Array<{ name: string; trusted: string[]; request: CallKey & { attempt: number; claim: string; request: string; grant_nonce: string }; reply: string; ok: boolean }> }>("starts");
  for (const row of file.rows) {
    const { attempt, claim, request, grant_nonce: nonce } = row.request;
    const doubt = await checkStart(parseStrict(row.reply), await trusting(file, row.trusted), { key: row.request, attempt, claim, request, nonce });
    assert.equal(doubt === "", row.ok, `${row.name}: ${doubt}`);
  }
});

test("key rings", async () => {
  const file = readVectors<Keyed & { rows: Array<{ name: string; trusted: string[]; retired: string[]; ring: EngineKey[]; trusted_after: string[]; retired_after: string[] }> }>("keyrings");
  for (const row of file.rows) {
    const got = await followKeys(row.ring, await trusting(file, row.trusted), new Set(row.retired));
    assert.deepEqual([...got.trusted.keys()].sort(), row.trusted_after, row.name);
    assert.deepEqual([...got.retired].sort(), row.retired_after, row.name);
  }
});

test("ids", async () => {
  const file = readVectors<{ calls: Array<CallKey & { idempotency_key: string; path?: string }>; derived: Array<{ reply_id: string; index: number; name: string; input: string; id: string }> }>("ids");
  for (const row of file.calls) {
    assert.equal(await idempotencyKey(row), row.idempotency_key, row.tool_call_id);
    let asked = "";
    const client = new Client({ url: "http://x", token: "", fetch: (url) => { asked = String(url); return Promise.resolve(Response.json({})); } });
    if (row.path === undefined) {
      await assert.rejects(client.show(row), { code: "invalid" }, row.tool_call_id);
      await assert.rejects(client.gate("s", "r").call("t", {}, { id: row.tool_call_id }), { code: "invalid" });
      assert.equal(asked, "", "nothing is sent");
      continue;
    }
    await client.show(row);
    // Encoding more characters than necessary names the same call.
    assert.equal(decodeURIComponent(new URL(asked).pathname), decodeURIComponent(row.path), row.tool_call_id);
    assert.equal(asked.split("/").length, "http://x".split("/").length + row.path.split("/").length - 1, row.tool_call_id);
  }
  for (const row of file.derived) assert.equal(await deriveCallID(row.reply_id, row.index, row.name, row.input), row.id);
});

test("calls", () => {
  const file = readVectors<{ key: CallKey; tool: string; rows: Array<{ name: string; call: string; outcome: { kind: string; input?: string; text?: string; output?: string; denial?: unknown } }> }>("calls");
  for (const { name, call: json, outcome } of file.rows) {
    const call = JSON.parse(json) as Call;
    const read = () => readOutcome(call, { key: file.key, tool: file.tool });
    if (outcome.kind === "error") {
      assert.throws(read, { code: "invalid_reply" }, name);
      continue;
    }
    const got = read();
    if (outcome.kind === "wait") assert.equal(got, undefined, name);
    else if (outcome.kind === "run") assert.deepEqual([got, call.input], ["run", outcome.input], name);
    else {
      assert.ok(typeof got === "object" && got.kind === outcome.kind, name);
      assert.equal(got.kind === "answered" ? textOf(got.output) : got.text, outcome.output ?? outcome.text, name);
      if (got.kind === "denied") assert.deepEqual(got.denial, outcome.denial, name);
    }
  }
});

test("errors", async () => {
  interface Row { name: string; status: number; headers: Record<string, string>; body: string; error: { code: string; retryable: boolean; detail?: string; hint?: string; has_call?: boolean } }
  for (const row of readVectors<{ rows: Row[] }>("errors").rows) {
    let tries = 0;
    const client = new Client({ url: "http://x", token: "", retryFor: 0, fetch: () => { tries++; return Promise.resolve(new Response(row.body, { status: row.status, headers: row.headers })); } });
    await assert.rejects(client.info(), (err) => {
      assert.ok(err instanceof AskanceError, row.name);
      assert.deepEqual({ code: err.code, retryable: err.retryable, status: err.status }, { code: row.error.code, retryable: row.error.retryable, status: row.status }, row.name);
      const { detail, hint } = row.error;
      if (detail) assert.equal(err.message, `cannot describe the engine: ${detail}${hint ? `. ${hint.charAt(0).toUpperCase()}${hint.slice(1)}` : ""}`, row.name);
      if (row.error.hint) assert.equal(err.hint, row.error.hint, row.name);
      assert.equal(err.call !== undefined, row.error.has_call ?? false, row.name);
      return true;
    });
    assert.equal(tries, 1);
  }
});

test("requests", async () => {
  interface Row { name: string; arguments: Record<string, never>; method: string; path: string; body?: unknown; status: number; idempotency_key?: boolean }
  for (const row of readVectors<{ rows: Row[] }>("requests").rows) {
    if (["next", "begin", "keys"].includes(row.name)) continue; // operations of a worker and of a run, which the tests with a server cover
    const sent: Array<{ url: string; init: RequestInit }> = [];
    const client = new Client({ url: "http://x", token: "t", fetch: (url, init) => { sent.push({ url: String(url), init: init ?? {} }); return Promise.resolve(Response.json({ calls: [], done: true })); } });
    const a = row.arguments as Record<string, never> & { calls: never; tool_call_ids: never };
    const gate = client.gate(a["session_id"] ?? "s", a["reply_id"] ?? "r", { ...(a["agent"] ? { agent: a["agent"] } : {}), ...(a["external_tools"] || row.name === "preview" ? { tools: a["external_tools"] ?? [] } : {}) });
    switch (row.name) {
      case "propose":
        await assert.rejects(gate.calls(a.calls).next(), { code: "invalid_reply" }); // the reply lists no calls
        break;
      case "preview":
        await gate.preview(a.calls);
        break;
      case "wait":
        await gate.wait(a.tool_call_ids, { hold: Number(a["timeout_ms"]) });
        break;
      case "report":
        await gate.report({ ...(a as object), tool_name: a["tool_name"] } as unknown as Call, { output: a["output"], state: "success" });
        break;
      case "requests":
        await client.requests({ session: a["session_id"] as unknown as string });
        break;
      case "respond": {
        const { session_id, reply_id, tool_call_id, ...response } = a as Record<string, never>;
        await client.respond({ session_id: session_id ?? "", reply_id: reply_id ?? "", tool_call_id: tool_call_id ?? "" }, response as never);
        break;
      }
      case "show":
        await client.show(a as never);
        break;
      case "interrupt":
        await gate.interrupt(a["reason"]);
        break;
      default:
        assert.fail(`no test for ${row.name}`);
    }
    const [{ url, init }] = sent as [{ url: string; init: RequestInit }];
    const headers = new Headers(init.headers);
    assert.equal(init.method, row.method, row.name);
    assert.equal(decodeURIComponent(url), decodeURIComponent(`http://x${row.path}`), row.name);
    assert.deepEqual(init.body === undefined ? undefined : JSON.parse(String(init.body)), row.body, row.name);
    assert.equal(headers.has("Idempotency-Key"), row.idempotency_key ?? false, row.name);
    assert.equal(headers.get("Authorization"), "Bearer t");
  }
});

test("streams", async () => {
  for (const row of readVectors<{ rows: Array<{ name: string; chunks: string[]; events: unknown[] }> }>("streams").rows) {
    const body = new ReadableStream<Uint8Array>({
      start(c) {
        for (const chunk of row.chunks) c.enqueue(new TextEncoder().encode(chunk));
        c.close();
      },
    });
    const got = [];
    for await (const e of readStream(body)) got.push(e);
    assert.deepEqual(got, row.events, row.name);
  }
});

test("types match the OpenAPI document", () => {
  const script = fileURLToPath(new URL("../scripts/generate.mjs", import.meta.url));
  const check = spawnSync(process.execPath, [script, "--check"], { encoding: "utf8" });
  assert.equal(check.status, 0, check.stderr);
});
