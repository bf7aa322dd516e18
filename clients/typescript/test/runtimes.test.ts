import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server as Pages } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { Server, tied } from "./server.js";
import { type Setting, story, told } from "./story.js";

const root = fileURLToPath(new URL("..", import.meta.url));
let pages: Pages;
let server: Server;
let folder: string;
const posted = new Map<string, (body: string) => void>();

before(async () => {
  pages = createServer((request, response) => {
    const path = request.url?.split("?")[0] ?? "";
    if (request.method === "POST") {
      let body = "";
      request.setEncoding("utf8").on("data", (chunk: string) => { body += chunk; }).on("end", () => {
        posted.get(path)?.(body);
        response.end();
      });
    } else if (path === "/page") {
      response.setHeader("Content-Type", "text/html").end(page);
    } else if (/^\/(build|dist)\/\w+\.js$/.test(path)) {
      response.setHeader("Content-Type", "text/javascript").end(readFileSync(join(root, path)));
    } else {
      response.writeHead(404).end();
    }
  }).listen(0, "127.0.0.1");
  await once(pages, "listening");
  folder = mkdtempSync(join(tmpdir(), "askance-socket-"));
  server = await Server.start("--http-origin", origin("127.0.0.1"), "--http-socket", join(folder, "s"));
});
after(async () => {
  pages.closeAllConnections();
  pages.close();
  await server.close();
  rmSync(folder, { recursive: true });
});

const origin = (host: string) => `http://${host}:${(pages.address() as AddressInfo).port}`;
const setting = (session: string, url = server.url): Setting => ({ url, tokens: server.tokens, engineKey: server.engineKey, session });

const page = `<!doctype html><script type="module">
  const { path, setting } = JSON.parse(decodeURIComponent(location.search.slice(1)));
  let out;
  try {
    const { story } = await import("/build/story.js");
    out = await story(setting);
  } catch (err) {
    out = [err.name, err.code, err.message];
  }
  await fetch(path, { method: "POST", body: JSON.stringify(out) });
</script>`;

test("sources use only standard APIs", () => {
  const imports = readdirSync(join(root, "src"), { withFileTypes: true }).filter((f) => f.isFile())
    .flatMap((f) => [...readFileSync(join(root, "src", f.name), "utf8").matchAll(/\bfrom "([^"]+)"/g)].map((m) => m[1]));
  assert.ok(imports.length > 10);
  assert.deepEqual(imports.filter((name) => !name?.startsWith("./")), []);
  assert.equal((JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { dependencies?: object }).dependencies, undefined);
});

test("Node.js", async () => {
  assert.deepEqual(await story(setting("node")), told);
  assert.deepEqual(await story(setting("node-socket", `unix://${folder}/s`)), told);
});

for (const [name, args] of [["deno", ["run", "--no-config", "--no-lock", "--allow-net", "--allow-env", "--allow-read", "--allow-write", "--allow-sys"]], ["bun", ["run"]]] as const) {
  test(name, () => {
    for (const given of [setting(name), setting(`${name}-socket`, `unix://${folder}/s`)]) {
      const bin = join(root, "node_modules", ".bin", name);
      const p = spawnSync(bin, [...args, join(root, "build", "run-story.js"), JSON.stringify(given)], { encoding: "utf8", timeout: 300_000, env: { ...process.env, DENO_NO_UPDATE_CHECK: "1" } });
      assert.equal(p.status, 0, `${given.url}: ${p.stderr} ${p.error?.message ?? ""}`);
      assert.deepEqual(JSON.parse(p.stdout), told);
    }
  });
}

/** Opens a page in a real browser and returns what it posts. */
async function browse(host: string, path: string, more: Partial<Setting> = {}): Promise<string[]> {
  const profile = mkdtempSync(join(tmpdir(), "askance-chromium-"));
  const url = `${origin(host)}/page?${encodeURIComponent(JSON.stringify({ path, setting: { ...setting(path), ...more } }))}`;
  const body = new Promise<string>((resolve) => posted.set(path, resolve));
  const name = ["chromium", "chromium-browser", "google-chrome"].find((n) => spawnSync(n, ["--version"]).status === 0);
  assert.ok(name, "Chromium is not installed: run make deps");
  const browser: ChildProcess = spawn(...tied(name, ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", `--user-data-dir=${profile}`, url]), { stdio: "ignore", detached: true });
  try {
    const ended = once(browser, "exit").then(() => { throw new Error("the browser ended"); });
    return JSON.parse(await Promise.race([body, ended])) as string[];
  } finally {
    if (browser.pid && browser.exitCode === null) {
      const gone = once(browser, "exit");
      process.kill(-(browser.pid ?? 0), "SIGKILL"); // its processes form one group
      await gone;
    }
    rmSync(profile, { recursive: true, force: true, maxRetries: 10 });
  }
}

test("a page of an origin that the server lists", { timeout: 300_000 }, async () => {
  assert.deepEqual(await browse("127.0.0.1", "/listed"), told);
});

test("a page of another origin can do nothing", { timeout: 300_000 }, async () => {
  const [name, code] = await browse("localhost", "/other", { retryFor: 0 });
  assert.deepEqual([name, code], ["Unavailable", "unavailable"]);
});
