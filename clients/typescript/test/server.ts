import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { Client, type ClientOptions } from "@askance/client";

const binary = process.env["ASKANCE_BIN"] ?? fileURLToPath(new URL("../../../bin/askance", import.meta.url));

const tie = ["--pdeathsig", "KILL"];
export const canTie = spawnSync("setpriv", [...tie, "true"]).status === 0; // Linux can

/** The command for spawn of a program that ends when the tests end, even if they are killed. */
export function tied(program: string, args: string[]): [string, string[]] {
  return canTie ? ["setpriv", [...tie, program, ...args]] : [program, args];
}

const policy = `version: 1
name: shop
rules:
  - {name: free, tool: [look, count, job, frail, timed, slow], behavior: allow}
  - {name: money, tool: [refund, ship], behavior: ask}
  - {name: release, tool: deploy, behavior: ask, quorum: 2}
  - {name: treasury, tool: pay, behavior: ask, approvers: {users: [ann]}}
  - {name: never, tool: drop, behavior: deny, message: '"tables are not dropped here"', denial: {allowed: "views", contact: "#data"}}
`;

const tools = `version: 1
tools:
  - {name: look, placement: external, concurrency_safe: true}
  - {name: count, placement: external}
  - {name: refund, placement: external, concurrency_safe: true}
  - {name: deploy, placement: external, concurrency_safe: true}
  - {name: pay, placement: external, concurrency_safe: true}
  - {name: drop, placement: external, concurrency_safe: true}
  - {name: job, placement: remote, concurrency_safe: true, lease: 6s}
  - {name: ship, placement: remote, concurrency_safe: true}
  - {name: timed, placement: remote, timeout: 1m}
  - {name: slow, placement: remote, timeout: 60d}
  - {name: frail, placement: remote, concurrency_safe: true, lease: 6s}
`;

export type Name = "bot" | "robot" | "ann" | "bob" | "wendy";

export const roles: Record<Name, string[]> = {
  bot: ["--role", "runtime"], robot: ["--role", "runtime"], ann: ["--role", "approver"], bob: ["--role", "approver"],
  wendy: ["--role", "worker", "--tool", "job", "--tool", "ship", "--tool", "frail", "--tool", "timed", "--tool", "slow"],
};

/** A port that systems do not assign: a restarted server must find it free. */
async function freePort(): Promise<number> {
  for (;;) {
    const port = 30_000 + Math.floor(Math.random() * 2_000);
    const probe = createServer();
    const free = await new Promise<boolean>((resolve) => {
      probe.once("error", () => resolve(false)).listen(port, "127.0.0.1", () => resolve(true));
    });
    if (!free) continue;
    await new Promise((resolve) => probe.close(resolve));
    return port;
  }
}

/** A real server in a temporary folder. */
export class Server {
  readonly #folder = mkdtempSync(join(tmpdir(), "askance-client-"));
  readonly tokens = {} as Record<Name, string>;
  url = "";
  #process: ChildProcess | undefined;
  #more: string[] = [];

  /** Starts a server; more are flags of askance serve. */
  static async start(...more: string[]): Promise<Server> {
    const s = new Server();
    writeFileSync(join(s.#folder, "policy.yaml"), policy);
    writeFileSync(join(s.#folder, "tools.yaml"), tools);
    for (const name of Object.keys(roles) as Name[]) {
      const made = spawnSync(binary, ["token", "create", name, ...roles[name], "--data", s.#data, "--json"], { encoding: "utf8", timeout: 300_000 });
      if (made.status !== 0) throw new Error(`token create: ${made.stderr} ${made.error?.message ?? ""}: build bin/askance first (make build)`);
      s.tokens[name] = (JSON.parse(made.stdout) as { token: string }).token;
    }
    s.#more = more;
    await s.run();
    return s;
  }

  get #data(): string {
    return join(this.#folder, "data");
  }

  /** The file with the engine's public key. */
  get engineKeyPath(): string {
    return join(this.#data, "engine.pub");
  }

  get engineKey(): string {
    return readFileSync(this.engineKeyPath, "utf8");
  }

  /** Signs with a new key from now on, and retires the previous one. */
  replaceKey(): void {
    const { keys } = JSON.parse(this.engineKey) as { keys: Array<{ id: string }> };
    for (const args of [["rotate"], ["retire", keys.at(-1)?.id ?? ""]]) {
      const { status, stderr } = spawnSync(binary, ["keys", ...args, "--data", this.#data], { encoding: "utf8", timeout: 300_000 });
      if (status !== 0) throw new Error(stderr);
    }
  }

  /** Runs the process, at its previous address. */
  async run(): Promise<void> {
    const http = this.url ? new URL(this.url).host : `127.0.0.1:${await freePort()}`;
    const p = spawn(...tied(binary, [
      "serve", "--data", this.#data, "--policy", join(this.#folder, "policy.yaml"), "--tools", join(this.#folder, "tools.yaml"),
      "--http", http, "--listen", "127.0.0.1:0", "--durability", "cached", ...this.#more,
    ]), { stdio: ["ignore", "pipe", "inherit"], cwd: this.#folder });
    this.#process = p;
    for await (const line of createInterface({ input: p.stdout })) {
      const found = /^\s*console\s+(http:\S+)/.exec(line);
      if (found?.[1]) {
        this.url = found[1];
        p.stdout.resume();
        return;
      }
    }
    throw new Error("askance serve ended");
  }

  /** Kills the process, as a crash does. */
  async kill(): Promise<void> {
    const p = this.#process;
    if (!p || p.exitCode !== null || p.signalCode !== null) return;
    const gone = once(p, "exit");
    p.kill("SIGKILL");
    await gone;
  }

  async close(): Promise<void> {
    await this.kill();
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 5 });
  }

  client(name: Name, more: ClientOptions = {}): Client {
    return new Client({ url: this.url, token: this.tokens[name], ...more });
  }

  /** Waits for the approval request of a call and returns it. */
  async asked(session: string, id: string, as: Name = "ann") {
    const client = this.client(as);
    const abort = new AbortController();
    for await (const e of client.callsStream({ session, signal: abort.signal })) {
      if (e.type === "call" && e.call.tool_call_id === id && e.call.state === "asking") return e.call;
    }
    throw new Error("the stream ended");
  }
}
