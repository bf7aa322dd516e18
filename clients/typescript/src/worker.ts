// A worker over HTTP: see gateway/api/WORK.md.
import type { EngineKeysReply, HeartbeatReply, ResultReply } from "./api.js";
import { AskanceError, Forbidden, messageOf, misconfigured } from "./errors.js";
import { toOutput } from "./gate.js";
import { anyOf, type Transport } from "./http.js";
import { integer, member, parseArguments, text, type Node } from "./json.js";
import { checkStart, checkTask, followKeys, randomID, readKnownKeys, readTime, type CallKey, type Checked, type KeySet, type KnownKeys } from "./proof.js";

/** One attempt of a call, as a tool sees it. */
export interface Task {
  call: CallKey;
  attempt: number;
  /** The approved arguments as JSON text, byte for byte. */
  inputText: string;
  /** The same for each attempt of this call. Pass it to the system that has the effect. */
  idempotencyKey: string;
  /** Aborts when the call is cancelled, its deadline passes, or the worker stops. */
  signal: AbortSignal;
  /** Shows a line to the people who watch the call; best effort. */
  progress(line: string): void;
}

/** A tool that a worker serves. */
export interface WorkerTool<In = never> {
  name: string;
  /** The subject to which rules route the calls that this worker takes. */
  subject?: string;
  run(input: In, task: Task): unknown;
}

/** Settings of a worker. */
export interface WorkerOptions {
  /**
   * The public keys of the engines: the text of the file engine.pub, or `ed25519:…`. A worker
   * follows their successors. `"server"` trusts the server's keys, over TLS, a Unix socket or on loopback.
   */
  engineKeys: readonly string[] | "server";
  /** How many calls of each tool run at the same time; default 1. */
  slots?: number;
  /** How long a stopping worker waits for running calls, in milliseconds; default 20,000. */
  drain?: number;
  /** Receives messages for the operator; default: `console.warn`. */
  log?: (message: string) => void;
}

const minLease = 500;
const returnDelay = 10_000;
/** How long an acknowledgement is repeated. Without it the task comes again, and does not run again. */
const ackFor = 5000;
const keysEvery = 10_000;
const unprovedLimit = 10_000;
const linesKept = 32;
const linesEvery = 50;
/** Longer timers fire at once. */
const longestTimer = 2 ** 31 - 1;
const gone = ["finished", "archived", "superseded", "interrupted", "not_found", "wrong_state"];

/** Why the run of a task ended early. */
class Stopped extends Error {
  readonly because: "cancelled" | "stale" | "deadline" | "stopping";

  constructor(because: Stopped["because"], message: string) {
    super(message);
    this.because = because;
  }
}

const codeOf = (err: unknown) => (err instanceof AskanceError && err.status > 0 && err.code !== "invalid_reply" ? err.code : "");

/** A time on both clocks: one stops while the machine sleeps, and the other can be set. */
interface Instant {
  monotonic: number;
  wall: number;
}

/** Takes tasks, checks their grants, runs them and reports the results. */
export class Worker {
  readonly #transport: Transport;
  readonly #tools: readonly WorkerTool[];
  readonly #options: WorkerOptions;
  readonly #begun = new Map<string, number>();
  #known: KnownKeys = { trusted: new Map(), retired: new Set() };
  #asked = -Infinity;

  constructor(transport: Transport, tools: readonly WorkerTool[], options: WorkerOptions) {
    this.#transport = transport;
    this.#tools = tools;
    this.#options = options;
    if (tools.length === 0) throw misconfigured("the worker has no tools", "Pass at least one");
    if (options.engineKeys === "server") {
      const { protocol, hostname } = new URL(transport.url);
      if (!["https:", "unix:"].includes(protocol) && !/^(localhost|127\.[\d.]+|\[::1\])$/.test(hostname)) {
        throw misconfigured("the worker cannot take the engine keys from a server without TLS", "Pass the text of the file engine.pub as engineKeys");
      }
    } else if (!Array.isArray(options.engineKeys) || options.engineKeys.length === 0) {
      throw misconfigured("the worker has no engine keys to check grants with", 'Pass the text of the file engine.pub as engineKeys, or "server"');
    }
  }

  /** Serves the tools until the signal aborts, then ends running calls. It throws if the token may not do this. */
  async run(options: { signal?: AbortSignal } = {}): Promise<void> {
    if (this.#options.engineKeys !== "server" && this.#known.trusted.size === 0) {
      const { trusted, retired } = await readKnownKeys(this.#options.engineKeys);
      this.#known = await followKeys([], trusted, new Set([...retired, ...this.#known.retired]));
    }
    const ended = new AbortController();
    const { signal: stop, release } = anyOf(options.signal, ended.signal);
    const runs = new AbortController(); // ends running calls, later than stop
    const ends = await Promise.allSettled(this.#tools.map(async (tool) => {
      try {
        await this.#serve(tool, stop, runs);
      } finally {
        ended.abort();
      }
    }));
    release();
    for (const end of ends) if (end.status === "rejected") throw end.reason;
  }

  async #serve(tool: WorkerTool, stop: AbortSignal, runs: AbortController): Promise<void> {
    const slots = this.#options.slots ?? 1;
    const running = new Set<Promise<void>>();
    try {
      while (!stop.aborted) {
        if (running.size >= slots) {
          await Promise.race(running);
          continue;
        }
        const tasks = await this.#next(tool, slots - running.size, stop).catch(async (err: unknown) => {
          if (stop.aborted || err instanceof Forbidden) throw err;
          this.#log(`${messageOf(err)}; asking again`);
          await this.#transport.clock.sleep(returnDelay / 2, stop);
          return [];
        });
        for (const task of tasks) {
          const run = this.#attend(tool, task, stop, runs.signal).catch((err: unknown) => this.#log(`a task of ${tool.name} failed: ${messageOf(err)}`));
          running.add(run);
          void run.finally(() => running.delete(run));
        }
      }
    } catch (err) {
      if (!stop.aborted) throw err;
    } finally {
      const drained = new AbortController();
      void this.#transport.clock.sleep(this.#options.drain ?? 20_000, drained.signal).then(() => runs.abort(new Stopped("stopping", "the worker stops")), () => undefined);
      await Promise.all(running);
      drained.abort();
    }
  }

  async #next(tool: WorkerTool, limit: number, stop: AbortSignal): Promise<Node[]> {
    const body = { ...queueOf(tool), limit, wait_ms: 25_000 };
    const { node } = await this.#transport.read("takeTasks", { body, hold: 25_000, retryFor: Infinity, signal: stop, retried: (err) => this.#log(`${err.message}; asking again`) });
    const tasks = member(node, "tasks");
    return tasks?.kind === "array" ? tasks.items : [];
  }

  /** Updates the engines' keys every ten seconds, and when an unknown key appears. */
  async #keysFor(id: string): Promise<KeySet> {
    const age = this.#transport.clock.monotonic() - this.#asked;
    if (age < 1000 || (age < keysEvery && this.#known.trusted.has(id))) return this.#known.trusted;
    this.#asked = this.#transport.clock.monotonic();
    try {
      const { keys } = await this.#transport.call<EngineKeysReply>("engineKeys", { retryFor: 0 });
      this.#known = this.#options.engineKeys === "server"
        ? await readKnownKeys(keys.filter((k) => !k.retired).map((k) => k.public_key))
        : await followKeys(keys, this.#known.trusted, this.#known.retired);
    } catch (err) {
      this.#log(`cannot look up the engines' keys, using the previous ones: ${messageOf(err)}`);
    }
    return this.#known.trusted;
  }

  /** Processes a task, from its check to the reply to its result. */
  async #attend(tool: WorkerTool, offered: Node, stop: AbortSignal, runs: AbortSignal): Promise<void> {
    const id = text(offered, "task");
    const record = member(offered, "record");
    if (id === undefined || !record) throw new TypeError("it cannot be read");
    const ack = (again?: { return: true; delay_ms: number }) =>
      this.#transport.call("ackTask", { body: { ...queueOf(tool), task: id, ...again }, retryFor: ackFor }).then(() => undefined, (err: unknown) => this.#log(`a task of ${tool.name} comes again: ${messageOf(err)}`));
    const giveBack = { return: true, delay_ms: returnDelay } as const;
    const keys = await this.#keysFor(text(record, "call", "attempt", "grant", "key_id") ?? "");
    const task = await checkTask(record, { tool: tool.name, subject: tool.subject ?? "", keys, now: this.#transport.clock.now() });
    const own = { session_id: task.key.session_id, reply_id: task.key.reply_id, tool_call_id: task.key.tool_call_id, attempt: task.attempt, claim: randomID() };
    if (task.verdict === "expired") return ack((await this.#isExpired(task, own)) ? undefined : giveBack);
    if (task.verdict === "run" && this.#begun.has(task.nonce)) return ack();
    if (task.verdict === "early") return ack(giveBack);
    if (stop.aborted) return ack({ return: true, delay_ms: 0 });
    if (task.verdict === "refuse") {
      this.#log(`cannot run the call ${own.tool_call_id}: ${task.reason}`);
      const body = { ...own, request: randomID(), grant_nonce: task.nonce, refuse: task.reason.slice(0, 1000) };
      const code = await this.#transport.call("startTask", { body }).then(() => "", codeOf);
      await ack(code && !gone.includes(code) ? giveBack : undefined);
      await this.#transport.clock.sleep(returnDelay / 2, stop).catch(() => undefined); // the worker stops
      return;
    }
    const lease = await this.#start(task, own, stop, ack, giveBack);
    if (!lease) return;
    await this.#run(tool, task, own, lease, runs);
    await lease.acked; // a stopped worker leaves no request behind
  }

  /** Whether the grant has expired by the engine's clock, too: this machine's may be wrong. */
  async #isExpired(task: Checked, own: Own): Promise<boolean> {
    try {
      const { at } = await this.#transport.call<HeartbeatReply>("sendHeartbeat", { body: { ...own, attempt: 0 }, retryFor: 0 }); // it only asks for the time
      return readTime(at) >= task.expires;
    } catch (err) {
      return gone.includes(codeOf(err));
    }
  }

  /** Claims the attempt. Returns the lease only if the engine signed it. */
  async #start(task: Checked, own: Own, stop: AbortSignal, ack: (again?: { return: true; delay_ms: number }) => Promise<void>, giveBack: { return: true; delay_ms: number }): Promise<Lease | undefined> {
    const first = this.#instant();
    let doubted: Instant | undefined;
    for (let pause = 100; ; pause = Math.min(2 * pause, returnDelay)) {
      const request = randomID();
      const sent = this.#instant();
      try {
        const { node } = await this.#transport.read("startTask", { body: { ...own, request, grant_nonce: task.nonce }, retryFor: 0 });
        const doubt = await checkStart(node, await this.#keysFor(text(node, "key_id") ?? ""), { key: task.key, attempt: own.attempt, claim: own.claim, request, nonce: task.nonce });
        if (!doubt) {
          const fresh = member(node, "fresh");
          const lasts = integer(node, "lease_ms") ?? 0;
          return {
            acked: ack(), since: fresh?.kind === "literal" && fresh.value === true ? sent : first, lasts,
            beat: Math.min(integer(node, "heartbeat_ms") ?? lasts, lasts / 3) || 5000, left: readTime(text(node, "deadline")) - readTime(text(node, "at")), // this machine's clock may be wrong
          };
        }
        this.#log(`a start reply for the call ${own.tool_call_id} is not proved to be an engine's and does not count: ${doubt}`);
        doubted ??= sent;
        if (this.#elapsed(doubted) > unprovedLimit) {
          await this.#deliver(own, { not_begun: `no reply to the start is proved: ${doubt}` }, stop);
          await ack(giveBack);
          return undefined;
        }
      } catch (err) {
        const code = codeOf(err);
        if (gone.includes(code)) {
          await ack();
          if (code === "superseded" && this.#elapsed(first) >= minLease) await this.#deliver(own, { not_begun: "an earlier start was never answered" }, stop);
          return undefined;
        }
        if (["forbidden", "foreign", "invalid", "too_large"].includes(code)) {
          this.#log(`this worker may not start the call ${own.tool_call_id}: ${messageOf(err)}`);
          await ack(giveBack);
          return undefined;
        }
      }
      try {
        await this.#transport.clock.sleep(pause, stop);
      } catch {
        await ack({ return: true, delay_ms: 0 });
        return undefined;
      }
    }
  }

  async #run(tool: WorkerTool, task: Checked, own: Own, lease: Lease, runs: AbortSignal): Promise<void> {
    const ended = new AbortController();
    const cancel = new AbortController();
    const { signal, release } = anyOf(cancel.signal, runs);
    void this.#beat(own, lease, cancel, ended.signal);
    if (!Number.isNaN(lease.left)) {
      void this.#transport.clock.sleep(Math.min(Math.max(0, lease.left), longestTimer), ended.signal).then(() => cancel.abort(new Stopped("deadline", "the deadline of the run has passed")), () => undefined);
    }
    try {
      const why = this.#mayBegin(lease, signal);
      if (why) {
        this.#log(`the call ${own.tool_call_id} is returned: ${why}`);
        return await this.#deliver(own, { not_begun: why }, runs);
      }
      if (!this.#remember(task)) return this.#log(`the call ${own.tool_call_id} was granted another start, but has begun here: it does not run twice`);
      const outcome = await this.#invoke(tool, task, own, signal);
      if (outcome) await this.#deliver(own, { result: { type: "tool_result", id: own.tool_call_id, name: tool.name, ...outcome } }, runs);
    } finally {
      ended.abort();
      release();
    }
  }

  /** Returns why the effect must not start, or "". Check it right before the effect. */
  #mayBegin(lease: Lease, signal: AbortSignal): string {
    if (signal.aborted) return `the attempt was not begun: ${messageOf(signal.reason)}`;
    if (lease.lasts < minLease) return `the attempt was not begun: the lease of ${lease.lasts} ms is too short; give the tool a longer lease`;
    const past = this.#elapsed(lease.since);
    return past > 0.75 * lease.lasts ? `the attempt was not begun: ${Math.round(past)} ms of the lease of ${lease.lasts} ms had passed` : "";
  }

  async #invoke(tool: WorkerTool, task: Checked, own: Own, signal: AbortSignal): Promise<{ output: unknown; state: string } | undefined> {
    let lines = Promise.resolve();
    const waiting: { n: number; text: string }[] = []; // the newest; older ones are dropped
    let n = 0;
    let open = true;
    const send = async () => {
      for (let line = waiting[0]; line; line = waiting[0]) {
        await this.#transport.call("sendProgress", { body: { ...own, ...line }, retryFor: 0 }).catch(() => undefined);
        if (waiting[0] === line) waiting.shift();
        if (open) await this.#transport.clock.sleep(linesEvery);
      }
    };
    const progress = (line: string) => {
      if (!open) return;
      const idle = waiting.length === 0;
      waiting.push({ n: ++n, text: String(line).slice(0, 16_000).replace(/\p{Surrogate}/gu, "\ufffd") });
      if (waiting.length > linesKept) waiting.shift();
      if (idle) lines = lines.then(send);
    };
    let ran = false;
    try {
      const input = parseArguments(task.input) as never; // a number that JavaScript would change is not what was approved
      const value = await tool.run(input, { call: task.key, attempt: own.attempt, inputText: task.input, idempotencyKey: task.idempotencyKey, signal, progress });
      ran = true;
      return { output: toOutput(value), state: "success" };
    } catch (err) {
      const because = signal.aborted && signal.reason instanceof Stopped ? signal.reason.because : "";
      if (because === "stopping") {
        this.#log(`the call ${own.tool_call_id} was broken off: its outcome is unknown`);
        return undefined; // no one requested this, so the record stays correct without a result
      }
      const text = ran ? `the tool ran, but its output is not JSON: ${messageOf(err)}` : messageOf(err);
      return { output: toOutput(text), state: because === "cancelled" || because === "stale" ? "interrupted" : "error" };
    } finally {
      open = false;
      await Promise.race([lines, this.#transport.clock.sleep(1000).catch(() => undefined)]);
    }
  }

  /** Keeps the lease until the attempt ends, and passes on a cancellation. */
  async #beat(own: Own, lease: Lease, cancel: AbortController, ended: AbortSignal): Promise<void> {
    let pause = Math.max(0, lease.beat - this.#elapsed(lease.since));
    for (;;) {
      try {
        await this.#transport.clock.sleep(pause, ended);
      } catch {
        return;
      }
      const sent = this.#instant();
      let reply: HeartbeatReply = {};
      try { // a lost heartbeat must not delay the next one
        reply = await this.#transport.call<HeartbeatReply>("sendHeartbeat", { body: own, retryFor: 0, signal: ended, within: Math.ceil(lease.beat) });
      } catch (err) {
        const code = codeOf(err);
        reply = { stale: ["superseded", "finished", "archived", "not_found"].includes(code), cancel: code === "interrupted" };
      }
      if (reply.stale) return cancel.abort(new Stopped("stale", reply.reason || "the attempt is stale"));
      if (reply.cancel) cancel.abort(new Stopped("cancelled", reply.reason || "the call was cancelled"));
      pause = Math.max(0, lease.beat - this.#elapsed(sent));
    }
  }

  /** Sends the outcome until there is a reply. A stopping worker gives up after five seconds. */
  async #deliver(own: Own, outcome: { result: unknown } | { not_begun: string }, stop: AbortSignal): Promise<void> {
    let body: object = { ...own, ...outcome };
    let stopping: Instant | undefined;
    for (let pause = 100; ; pause = Math.min(2 * pause, returnDelay)) {
      try {
        const reply = await this.#transport.call<ResultReply>("sendResult", { body, retryFor: 0 });
        if (!reply.state) throw new Error("the reply is not from askance"); // {} of a proxy
        if (!reply.stored) this.#log(`the result of the call ${own.tool_call_id} came too late and does not count`);
        return;
      } catch (err) {
        const code = codeOf(err);
        if (gone.includes(code) || code === "forbidden") return this.#log(`the result of the call ${own.tool_call_id} does not count: ${messageOf(err)}`);
        if (code === "invalid" || code === "too_large") {
          this.#log(`the engine refused the result of the call ${own.tool_call_id}: ${messageOf(err)}`);
          const before = (body as { result?: { id: string; name: string; state: string } }).result;
          if (!before || !("result" in outcome) || before !== outcome.result) return;
          const output = `the tool ran and ended with state ${before.state}, but the engine refused its result: ${messageOf(err)}`;
          body = { ...own, result: { type: "tool_result", id: before.id, name: before.name, output, state: "error" } };
          continue;
        }
      }
      if (stop.aborted) stopping ??= this.#instant();
      if (stopping && this.#elapsed(stopping) > 5000) return this.#log(`the result of the call ${own.tool_call_id} was given up`);
      await this.#transport.clock.sleep(pause);
    }
  }

  /** Remembers a grant until it expires, so one process never starts it twice: false if it began before. */
  #remember(task: Checked): boolean {
    const now = this.#transport.clock.now();
    for (const [nonce, expires] of this.#begun) if (expires <= now) this.#begun.delete(nonce);
    const first = !this.#begun.has(task.nonce);
    this.#begun.set(task.nonce, task.expires);
    return first;
  }

  #instant(): Instant {
    return { monotonic: this.#transport.clock.monotonic(), wall: this.#transport.clock.now() };
  }

  #elapsed(since: Instant): number {
    const now = this.#instant();
    return Math.max(now.monotonic - since.monotonic, now.wall - since.wall);
  }

  #log(message: string): void {
    (this.#options.log ?? console.warn)(message);
  }
}

interface Own {
  session_id: string;
  reply_id: string;
  tool_call_id: string;
  attempt: number;
  claim: string;
}

interface Lease {
  acked: Promise<void>;
  since: Instant;
  lasts: number;
  beat: number;
  /** Until the deadline, in milliseconds; NaN: there is none. */
  left: number;
}

function queueOf(tool: WorkerTool): { tool_name: string; subject?: string } {
  return { tool_name: tool.name, ...(tool.subject ? { subject: tool.subject } : {}) };
}
