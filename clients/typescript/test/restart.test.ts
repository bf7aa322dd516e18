import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { Allowed } from "@askance/client";
import { canTie, Server } from "./server.js";

let server: Server;
before(async () => { server = await Server.start(); });
after(() => server.close());

test("the server is killed while a call waits, and started again", async () => {
  const asked = server.client("bot").gate("s", "r").call("refund", { cents: 7 }, { id: "c" });
  const events = server.client("bot").events("s");
  await events.next();
  await server.asked("s", "c");
  await server.kill();
  const next = (async () => {
    for await (const { event } of events) if (event["type"] === "TOOL_RESULT_END") return event["tool_call_id"];
    return "";
  })();
  await server.run();
  await server.client("ann").respond(await server.asked("s", "c"), { kind: "approve" });
  const outcome = await asked;
  assert.ok(outcome instanceof Allowed);
  assert.equal(await outcome.run((input: { cents: number }) => input.cents), 7);
  assert.equal(await next, "c");
});

test("the server is killed while a tool runs: the result is stored after its restart", async () => {
  const outcome = await server.client("bot").gate("s2", "r").call("look", {}, { id: "c" });
  assert.ok(outcome instanceof Allowed);
  let up: Promise<void> = Promise.resolve();
  await outcome.run(async () => {
    await server.kill();
    up = server.run();
    return "done";
  });
  await up;
  assert.equal((await server.client("bot").show(outcome.call)).call.result?.output, "done");
});

test("a server ends with the tests that started it, even if they are killed", { timeout: 300_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "askance-left-"));
  const program = `import { Server } from ${JSON.stringify(new URL("server.js", import.meta.url))}; console.log((await Server.start()).url);`;
  const tests = spawn(process.execPath, ["--input-type=module", "--eval", program], { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, TMPDIR: folder } });
  tests.stderr.resume();
  await once(tests.stdout, "data");
  const ended = once(tests, canTie ? "close" : "exit"); // close: the server holds stderr no longer
  tests.kill("SIGKILL");
  await ended;
  rmSync(folder, { recursive: true });
});
