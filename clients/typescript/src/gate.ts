// The gate between a runtime and its tools: propose, wait, run what was approved, report.
import type { Call, Denial, ParentKey, PreviewReply, ProposeBody, ProposeReply, ReportBody, ToolDefinition, WaitReply } from "./api.js";
import { AskanceError, Conflict, invalidReply, messageOf, Unfinished } from "./errors.js";
import { anyOf, encodeID, type Transport } from "./http.js";
import { parseArguments, parseStrict, writeArguments, writeJSON } from "./json.js";
import { deriveCallID, idempotencyKey, randomID, type CallKey } from "./proof.js";

/** The pause after a server ended a wait much too early, in milliseconds. */
const earlyPause = 500;

/** A call that a model wants. */
export interface Proposal {
  name: string;
  /** The arguments: a value, or JSON text that is used unchanged. */
  input: unknown;
  /** The model's id of the call. If it is absent, the client derives one. */
  id?: string;
  /** A call that started and has no result can run again. Declare this only for tools for which that is harmless. */
  idempotent?: boolean;
}

/** What a tool's result can be: text, or AgentScope's content blocks. */
export type Output = string | Array<Record<string, unknown>>;

/** How a run ended. */
export interface Result {
  output: unknown;
  state?: "success" | "error" | "interrupted";
}

/** The policy or a person denied the call, or it failed elsewhere. It does not run. */
export interface Denied {
  kind: "denied";
  call: Call;
  /** The text for the model, with the approver's feedback. */
  text: string;
  /** The parts of the text: rule, reason, what would be allowed, whom to ask. */
  denial?: Denial;
}

/** The call has its result: a person responded, a worker ran it, or it ran earlier. It does not run. */
export interface Answered {
  kind: "answered";
  call: Call;
  /** The result as text. */
  text: string;
  output: Output;
}

/** What a run gets in addition to its arguments. */
export interface RunContext {
  call: Call;
  /** The approved arguments as JSON text, byte for byte. */
  inputText: string;
  /** The same for each run of this call: pass it to the system that has the effect. */
  idempotencyKey: string;
  signal: AbortSignal;
}

/** The call is allowed and this process must run it, with exactly `input`. */
export class Allowed {
  readonly kind = "allowed";
  readonly call: Call;
  /** The approved arguments as JSON text, byte for byte. An approver may have edited them. */
  readonly inputText: string;
  readonly #gate: Gate;
  #ran = false;

  constructor(gate: Gate, call: Call) {
    this.#gate = gate;
    this.call = call;
    this.inputText = call.input;
  }

  /** The approved arguments. This throws if JavaScript cannot hold a number exactly; use `inputText` then. */
  get input(): unknown {
    return parseArguments(this.inputText);
  }

  /**
   * Runs the tool once and reports its result. An exception is reported as `error` and
   * thrown again, and after the signal aborted as `interrupted`.
   */
  async run<T>(fn: (input: never, context: RunContext) => T | Promise<T>, options: { signal?: AbortSignal | undefined } = {}): Promise<T> {
    if (this.#ran) throw new AskanceError(`cannot run the call ${this.call.tool_call_id} twice`, { code: "unfinished", call: this.call });
    this.#ran = true;
    const signal = options.signal ?? new AbortController().signal;
    let value: T;
    try {
      signal.throwIfAborted();
      const context = { call: this.call, inputText: this.inputText, idempotencyKey: await idempotencyKey(this.call as CallKey), signal };
      value = await fn(this.input as never, context);
    } catch (err) {
      const state = signal.aborted ? "interrupted" : "error";
      await this.#gate.report(this.call, { state, output: messageOf(err) }).catch((failure: unknown) => {
        throw new AggregateError([err, failure], `the tool failed (${messageOf(err)}), and its result cannot be reported`);
      });
      throw err;
    }
    await this.#gate.report(this.call, { output: value });
    return value;
  }
}

/** The outcome of a proposed call. */
export type Outcome = Allowed | Denied | Answered;

/** Settings of a gate. */
export interface GateOptions {
  /** The agent's name, for rules and people. */
  agent?: string;
  /** The call within which these are made, such as the one that started a sub-agent. */
  parent?: ParentKey;
  /** The tools that this runtime runs: names, or definitions. If it is absent, the runtime runs every call. */
  tools?: ReadonlyArray<string | ToolDefinition>;
  signal?: AbortSignal;
}

/** Writes what a tool returned as the output of a result. */
export function toOutput(value: unknown): Output {
  if (value === undefined || value === null) return "";
  const isBlock = (b: unknown) => typeof b === "object" && b !== null && ["text", "data"].includes(String((b as { type?: unknown }).type)) && ("text" in b || "source" in b);
  if (Array.isArray(value) && value.length > 0 && value.every(isBlock)) return value as Output;
  return (typeof value === "string" ? value : writeJSON(value)).replace(/\p{Surrogate}/gu, "\ufffd");
}

function writeInput(name: string, input: unknown): string {
  try {
    return writeArguments(input);
  } catch (cause) {
    throw new AskanceError(`cannot propose a call of ${name}: its arguments are no JSON (${messageOf(cause)})`, { code: "invalid", hint: "Use strings, booleans, lists, plain objects and numbers below 2^53, or pass JSON text", cause });
  }
}

/** The text of a result; text blocks are joined by line feeds. */
export function textOf(output: Output): string {
  if (typeof output === "string") return output;
  return output.filter((b) => b["type"] === "text").map((b) => String(b["text"] ?? "")).join("\n");
}

/** Reads what a runtime does with a call: undefined means wait, and "run" means run it. Everything else is an error. */
export function readOutcome(call: Call, expected: { key: Omit<CallKey, "space">; tool: string }): Denied | Answered | "run" | undefined {
  const refuse = (why: string) => invalidReply(`read the call ${expected.key.tool_call_id}`, why);
  const { session_id, reply_id, tool_call_id } = expected.key;
  if (call.session_id !== session_id || call.reply_id !== reply_id || call.tool_call_id !== tool_call_id) throw refuse("the server names another call");
  if (call.tool_name !== expected.tool) throw refuse("it is a call of another tool");
  if (!["pending", "asking", "allowed", "submitted", "finished"].includes(call.state)) throw refuse("its state is unknown");
  if (call.placement !== undefined && !["local", "remote", "external"].includes(call.placement)) throw refuse("its placement is unknown");
  if (call.state === "finished") {
    const result = call.result;
    const output = result?.output as Output | undefined;
    if (!result || (typeof output !== "string" && !Array.isArray(output))) throw refuse("it is finished and has no result");
    if (result.state === "success") return { kind: "answered", call, output, text: textOf(output) };
    if (!["denied", "error", "interrupted"].includes(result.state ?? "")) throw refuse("the state of its result is unknown");
    return { kind: "denied", call, text: textOf(output), ...(call.denial ? { denial: call.denial } : {}) };
  }
  if (call.state !== "submitted" || call.placement !== "external" || call.blocked) return undefined;
  if (typeof call.input !== "string") throw refuse("its input is not a text");
  try {
    parseStrict(call.input);
  } catch (err) {
    throw refuse(`its input is not valid: ${messageOf(err)}`);
  }
  return "run";
}

interface Identified extends Proposal {
  id: string;
  input: string;
}

/** The calls of one model response. */
export class Gate {
  readonly session: string;
  readonly reply: string;
  readonly #transport: Transport;
  readonly #options: GateOptions;
  readonly #seen = new Map<string, number>();

  constructor(transport: Transport, session: string, reply: string, options: GateOptions) {
    encodeID(session, "a session id");
    encodeID(reply, "a reply id");
    this.#transport = transport;
    this.session = session;
    this.reply = reply;
    this.#options = options;
  }

  /** Proposes a call and waits until it is decided, which can take as long as people take; see `signal`. */
  async call(name: string, input: unknown, options: { id?: string; idempotent?: boolean; signal?: AbortSignal | undefined } = {}): Promise<Outcome> {
    const { signal, ...rest } = options;
    for await (const outcome of this.calls([{ name, input, ...rest }], { signal })) return outcome;
    throw invalidReply("propose", "the reply lists no calls");
  }

  /**
   * Proposes the calls of one model response together and yields each outcome as it is
   * decided. Run and report an outcome before the next one, or at the same time: a later
   * call can wait for the result of an earlier one.
   */
  async *calls(proposals: readonly Proposal[], options: { signal?: AbortSignal | undefined } = {}): AsyncGenerator<Outcome, void, undefined> {
    const signal = options.signal ?? this.#options.signal;
    const identified = await this.#identify(proposals);
    const proposed = await this.#propose(identified, signal);
    const ended = new AbortController();
    const { signal: both, release } = anyOf(signal, ended.signal);
    const waiting = new Map(identified.map((p, i) => [p.id, this.#decide(p, proposed[i] as Call, both).then((outcome) => ({ id: p.id, outcome }))]));
    for (const promise of waiting.values()) promise.catch(() => undefined); // it is awaited below, or its caller left
    try {
      while (waiting.size > 0) {
        const { id, outcome } = await Promise.race(waiting.values());
        waiting.delete(id);
        const proposal = identified.find((p) => p.id === id);
        yield "kind" in outcome || !proposal ? outcome as Denied | Answered : await this.#allow(proposal, outcome, both);
      }
    } finally {
      ended.abort(new Error("the caller waits no longer"));
      release();
    }
  }

  /** Proposes calls, or finds them again, and returns their current state without waiting. */
  async propose(proposals: readonly Proposal[], signal: AbortSignal | undefined = this.#options.signal): Promise<Call[]> {
    return this.#propose(await this.#identify(proposals), signal);
  }

  async #propose(identified: readonly Identified[], signal: AbortSignal | undefined): Promise<Call[]> {
    const proposed = await this.#transport.call<ProposeReply>("proposeCalls", { path: this.#path(), body: this.#body(identified), once: true, signal });
    if (!Array.isArray(proposed.calls) || proposed.calls.length !== identified.length) throw invalidReply("propose", "the reply does not list the calls");
    return proposed.calls;
  }

  /** Waits until each call is finished, or allowed for this runtime to run, and returns the calls. */
  async wait(ids: readonly string[] = [], options: { signal?: AbortSignal | undefined; hold?: number } = {}): Promise<Call[]> {
    const hold = options.hold ?? 25_000;
    const query: Array<[string, string]> = [...ids.map((id): [string, string] => ["tool_call_id", id]), ["until", "runnable"], ["timeout_ms", String(hold)]];
    const signal = options.signal ?? this.#options.signal;
    const clock = this.#transport.clock;
    for (;;) {
      const asked = clock.monotonic();
      const reply = await this.#transport.call<WaitReply>("waitForCalls", { path: this.#path(), query, hold, signal });
      if (!Array.isArray(reply.calls) || typeof reply.done !== "boolean") throw invalidReply("wait", "the reply does not list the calls");
      if (reply.done) return reply.calls;
      if (clock.monotonic() - asked < hold / 2) await clock.sleep(earlyPause, signal); // the server did not hold the request
    }
  }

  /** Reports how the run of a call ended. */
  async report(call: Call, result: Result): Promise<Call> {
    const send = (r: { output: Output; state: NonNullable<Result["state"]> }) =>
      this.#transport.call<Call>("reportResult", {
        path: { ...this.#path(), tool_call_id: call.tool_call_id ?? "" }, once: true,
        body: { result: { type: "tool_result", id: call.tool_call_id ?? "", name: call.tool_name, ...r } } satisfies ReportBody,
      });
    try {
      return await send({ output: toOutput(result.output), state: result.state ?? "success" });
    } catch (err) {
      if (err instanceof AskanceError && !["too_large", "invalid"].includes(err.code)) throw err; // all else is about the output
      return send({ output: `The tool ran and ended with state ${result.state ?? "success"}, but its result cannot be stored: ${messageOf(err)}`, state: "error" });
    }
  }

  /** Interrupts the open calls of this reply. */
  async interrupt(reason = "", signal?: AbortSignal): Promise<void> {
    await this.#transport.call("interruptReply", { path: this.#path(), body: reason ? { reason } : {}, once: true, signal });
  }

  /** Asks what would be decided about calls, without proposing them. */
  async preview(proposals: readonly Proposal[], signal?: AbortSignal): Promise<PreviewReply> {
    return this.#transport.call("previewCalls", { path: this.#path(), body: this.#body(await this.#identify(proposals)), signal });
  }

  #path(): Record<string, string> {
    return { session_id: this.session, reply_id: this.reply };
  }

  async #identify(proposals: readonly Proposal[]): Promise<Identified[]> {
    const out: Identified[] = [];
    for (const p of proposals) {
      const input = typeof p.input === "string" ? p.input : writeInput(p.name, p.input);
      let id = p.id;
      if (id === undefined) {
        const same = await deriveCallID(this.reply, 0, p.name, input);
        const index = this.#seen.get(same) ?? 0;
        this.#seen.set(same, index + 1);
        id = await deriveCallID(this.reply, index, p.name, input);
      }
      encodeID(id, "a call id");
      out.push({ ...p, id, input });
    }
    if (new Set(out.map((p) => p.id)).size !== out.length) throw new AskanceError("cannot propose the calls: two have the same id", { code: "invalid", hint: "Give each call its own id" });
    return out;
  }

  #body(proposals: readonly Identified[]): ProposeBody {
    const { agent, parent, tools } = this.#options;
    const own = tools && new Set(tools.map((t) => (typeof t === "string" ? t : t.name)));
    const defined = (tools ?? []).filter((t): t is ToolDefinition => typeof t !== "string");
    const names = new Set(proposals.map((p) => p.name).filter((n) => (own ? own.has(n) : true) && !defined.some((d) => d.name === n)));
    return {
      ...(agent ? { agent } : {}), ...(parent ? { parent } : {}), ...(defined.length > 0 ? { tools: defined } : {}),
      tool_calls: proposals.map(({ id, name, input }) => ({ type: "tool_call" as const, id, name, input })),
      ...(names.size > 0 ? { external_tools: [...names] } : {}),
    };
  }

  /** Waits for the decision, and returns the call itself if it must run. */
  async #decide(p: Identified, proposed: Call, signal: AbortSignal): Promise<Denied | Answered | Call> {
    const expected = this.#expect(p);
    let call = proposed;
    let outcome = readOutcome(call, expected);
    while (outcome === undefined) {
      const [now] = await this.wait([p.id], { signal });
      if (!now) throw invalidReply("wait", "the reply does not list the call");
      call = now;
      outcome = readOutcome(call, expected);
      if (outcome === undefined) throw invalidReply("wait", "the server says that the call is done, and it is not");
    }
    return outcome === "run" ? call : outcome;
  }

  /** Begins a call: only the first process that does may run it, unless its tool is idempotent. */
  async #allow(p: Identified, call: Call, signal: AbortSignal): Promise<Outcome> {
    const declared = (this.#options.tools ?? []).some((t) => typeof t !== "string" && t.name === call.tool_name && t.annotations?.idempotent === true);
    const isIdempotent = p.idempotent ?? declared;
    const path = { ...this.#path(), tool_call_id: p.id };
    const key = JSON.stringify(path);
    const { claims } = this.#transport;
    const claim = claims.get(key) ?? randomID();
    claims.delete(key); // two callers never share one
    let now: Call | undefined;
    try {
      now = await this.#transport.call<Call>("beginCall", { path, body: { claim }, once: true, signal });
    } catch (err) {
      if (!(err instanceof AskanceError) || !["finished", "superseded"].includes(err.code)) {
        if (!(err instanceof Conflict)) claims.set(key, claim);
        throw err;
      }
      now = err.call; // ended before, or begun by another process
      if (err.code === "superseded" && (!isIdempotent || now?.blocked)) throw new Unfinished(call);
    }
    const outcome = now && readOutcome(now, this.#expect(p));
    if (!now || outcome === undefined) throw invalidReply("begin the call", "the server says that the call may run, and it may not");
    return outcome === "run" ? new Allowed(this, now) : outcome;
  }

  #expect(p: Identified): Parameters<typeof readOutcome>[1] {
    return { key: { session_id: this.session, reply_id: this.reply, tool_call_id: p.id }, tool: p.name };
  }
}
