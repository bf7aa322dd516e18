import assert from "node:assert/strict";
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { type Name, roles, Server, tied } from "./server.js";

const read = (path: string) => readFileSync(new URL(path, import.meta.url), "utf8");
let server: Server;
before(async () => { server = await Server.start(); });
after(() => server.close());

const page = read("../../../docs/howto/typescript.md");

test("the page has the programs of test/howto", () => {
  const blocks = [...page.matchAll(/```ts\n([^]*?)```/g)].map((m) => m[1]).sort();
  const programs = readdirSync(new URL("../test/howto", import.meta.url)).map((name) => read(`../test/howto/${name}`)).sort();
  assert.deepEqual(blocks, programs);
});

/** Starts a program with a token of the role that the page names last before it. */
function start(name: string, as: Name): ChildProcessWithoutNullStreams & { said: Promise<string> } {
  const earlier = page.slice(0, page.indexOf(read(`../test/howto/${name}.ts`)));
  assert.equal([...earlier.matchAll(/askance token create \w+ --role (\w+)/g)].at(-1)?.[1], roles[as][1], name);
  const env = { ...process.env, ASKANCE_URL: server.url, ASKANCE_TOKEN: server.tokens[as], ENGINE_KEY: server.engineKeyPath };
  const p = spawn(...tied(process.execPath, [fileURLToPath(new URL(`howto/${name}.js`, import.meta.url))]), { env });
  let out = "";
  p.stdout.setEncoding("utf8").on("data", (chunk: string) => { out += chunk; });
  p.stderr.pipe(process.stderr);
  return Object.assign(p, { said: once(p, "close").then(([code]) => { assert.equal(code, 0, name); return out; }) });
}

test("gate: a person edits, and the program runs with the edit", async () => {
  const gate = start("gate", "bot");
  const request = await server.asked("support-7", "call-1");
  await server.client("ann").respond(request, { kind: "approve", input: '{"order":"A-1","cents":50}' });
  assert.equal(await gate.said, "success refunded 50 cents of A-1\n");
  assert.equal(await start("gate", "bot").said, "success refunded 50 cents of A-1\n", "the result that is stored");
});

test("siblings and respond: one is approved and one rejected", async () => {
  const siblings = start("siblings", "bot");
  await Promise.all(["call-0", "call-1"].map((id) => server.asked("support-7", id)));
  assert.equal(await start("respond", "ann").said, 'call-0 {"cents":100}\ncall-1 {"cents":200}\n');
  const said = (await siblings.said).trim().split("\n").sort();
  assert.equal(said[0], "call-0 refunded 100");
  assert.match(said[1] ?? "", /^call-1 denied .*Ask for the receipt\./);
});

test("worker: it ships, and stops on request", async () => {
  const worker = start("worker", "wendy");
  const gate = server.client("bot").gate("ships", "r", { tools: [] });
  const shipped = gate.call("ship", { order: "A-1" }, { id: "c" });
  await server.client("ann").respond(await server.asked("ships", "c"), { kind: "approve" });
  const outcome = await shipped;
  assert.ok(outcome.kind === "answered" && outcome.text === "shipped A-1");
  worker.kill("SIGTERM");
  assert.equal(await worker.said, "");
});
