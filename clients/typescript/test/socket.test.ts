import assert from "node:assert/strict";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

import { Client, type ClientOptions } from "@askance/client";

const root = mkdtempSync(join(tmpdir(), "askance-socket-"));
after(() => rmSync(root, { recursive: true }));

const whoami = (path: string, more: ClientOptions = {}) => new Client({ url: `unix://${path}`, token: "", retryFor: 0, ...more }).whoami();

function makeFolder(...names: string[]): string {
  const folder = join(root, ...names);
  mkdirSync(folder, { mode: 0o700, recursive: true });
  return folder;
}

for (const mode of [0o777, 0o775, 0o1777]) {
  test(`a socket that others could replace, mode ${mode.toString(8)}`, async () => {
    const parent = makeFolder(`p${mode}`);
    const folder = makeFolder(`p${mode}`, "folder");
    chmodSync(folder, mode);
    await assert.rejects(whoami(join(folder, "s")), { code: "untrusted", message: new RegExp(`other users can write to ${folder} and`) });
    chmodSync(folder, 0o700);
    chmodSync(parent, mode);
    // The folder belongs to this user: in a parent with the sticky bit, others cannot replace it.
    await assert.rejects(whoami(join(folder, "s")), { code: mode & 0o1000 ? "unavailable" : "untrusted" });
  });
}

test("links to a socket", async () => {
  const [opened, mine] = [makeFolder("open"), makeFolder("mine")];
  chmodSync(opened, 0o777);
  symlinkSync(mine, join(opened, "near")); // others can point it elsewhere
  makeFolder("open", "inner");
  for (const [name, target] of Object.entries({ far: join(opened, "near"), near: "mine", loop: join(root, "loop"), deep: "open/inner", back: "deep/../near" })) symlinkSync(target, join(root, name));
  const expectations = {
    far: "untrusted", near: "unavailable", loop: "untrusted", back: "untrusted",
    "deep/../near": "untrusted", // not near beside the link
    "mine/../near": "unavailable",
  };
  for (const [name, code] of Object.entries(expectations)) await assert.rejects(whoami(`${root}/${name}/s`), { code }, name);
});

test("settings without a socket", () => {
  for (const url of ["unix://s", "unix:///", "unix:s"]) assert.throws(() => new Client({ url, token: "" }), { code: "misconfigured" });
  assert.throws(() => new Client({ url: "unix:///s", token: "", fetch }), { code: "misconfigured", message: /fetch of your own/ });
});

async function serve(name: string, listener: RequestListener, use: (path: string) => Promise<void>): Promise<void> {
  const path = join(makeFolder(name), "s");
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(path, resolve));
  try {
    await use(path);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

test("a server that breaks off, and one with a strange reply", { timeout: 300_000 }, async () => {
  await serve("broken", (_, reply) => { reply.writeHead(200, { "Content-Type": "application/json", "Content-Length": 9 }).write("{", () => reply.destroy()); }, async (path) => {
    await assert.rejects(whoami(path), { code: "unavailable" });
  });
  for (const status of [204, 600, 999]) {
    await serve(`strange${status}`, (_, reply) => void reply.writeHead(status).end(), async (path) => {
      await assert.rejects(whoami(path), { code: "invalid_reply" });
    });
  }
});

test("an abort ends a request that waits", async () => {
  const abort = new AbortController();
  await serve("silent", () => abort.abort(new Error("enough")), async (path) => {
    const client = new Client({ url: `unix://${path}`, token: "", retryFor: 0 });
    await assert.rejects(client.show({ session_id: "s", reply_id: "r", tool_call_id: "c" }, abort.signal), /enough/);
  });
});
