import type { Call, ChangeEvent, Denial, InfoReply, ListReply, ResponseBody, ProgressBody, ShowReply, ToolAnnotations, WhoamiReply } from "./api.js";
import { AskanceError, invalidReply, messageOf, Unavailable } from "./errors.js";
import { Allowed, Gate, textOf, toOutput, type GateOptions, type Outcome, type Output, type Proposal, type RunContext } from "./gate.js";
import { anyOf, Transport, type ClientOptions } from "./http.js";
import { readStream } from "./stream.js";
import { Worker, type WorkerOptions, type WorkerTool } from "./worker.js";

/** How long an aborted caller waits for the interrupt of its reply, in milliseconds. */
const interruptWithin = 5000;

/** Names a call, as a `Call` does. */
export interface CallName {
  session_id: string;
  reply_id?: string;
  tool_call_id?: string;
}

/** A response to an approval request. Without `digest` it is about the request that `call` shows. */
export type Response = Omit<ResponseBody, "digest"> & { digest?: string };

/** An event of a session, and its id, after which a stream can resume. */
export interface SessionEvent {
  id: string;
  event: Record<string, unknown>;
}

/** A change of a call; `ready` comes after the open calls. */
export type CallsEvent = ({ type: "call" } & ChangeEvent) | { type: "ready" } | ({ type: "progress"; tool_call_id: string } & Omit<ProgressBody, "claim">);

/** A function that runs behind the gate. */
export interface GatedTool<In> {
  name: string;
  description?: string;
  /** A JSON Schema of the arguments, for rules and people. */
  inputSchema?: unknown;
  annotations?: ToolAnnotations;
  run(input: In, context: RunContext): unknown;
}

/** Where a gated tool is called. */
export interface ToolContext extends Omit<GateOptions, "tools"> {
  session: string;
  reply: string;
  /** The model's id of the call. */
  id?: string;
}

/** What a gated tool returns for the model. */
export interface ToolResult {
  state: "success" | "error" | "interrupted" | "denied";
  text: string;
  output: Output;
  /** Why the call was denied, in parts. */
  denial?: Denial;
  /** What the function returned; absent if it did not run here. */
  value?: unknown;
}

/** A client of one server. It has no connection of its own to close. */
export class Client {
  readonly #transport: Transport;

  constructor(options: ClientOptions = {}) {
    this.#transport = new Transport(options);
  }

  /** The gate for the calls of one model response. */
  gate(session: string, reply: string, options: GateOptions = {}): Gate {
    return new Gate(this.#transport, session, reply, options);
  }

  /**
   * Wraps a function as a gated tool. The result is for the model: denials, errors of the
   * function and an unavailable server become texts. Only an abort is thrown.
   */
  tool<In = Record<string, unknown>>(tool: GatedTool<In>): (input: In | string, context: ToolContext) => Promise<ToolResult> {
    return async (input, { session, reply, id, signal, ...options }) => {
      const { name, description, inputSchema, annotations } = tool;
      const definition = { name, ...(description ? { description } : {}), ...(inputSchema === undefined ? {} : { input_schema: inputSchema }), ...(annotations ? { annotations } : {}) };
      const isDefined = Object.keys(definition).length > 1;
      const gate = this.gate(session, reply, { ...options, tools: [isDefined ? definition : name] });
      let outcome: Outcome | undefined;
      let hasRun = false;
      try {
        outcome = await gate.call(name, input, { ...(id === undefined ? {} : { id }), signal });
        if (!(outcome instanceof Allowed)) {
          const state = outcome.kind === "answered" ? "success" : (outcome.call.result?.state as ToolResult["state"]);
          if (outcome.kind === "answered") return { state, text: outcome.text, output: outcome.output };
          return { state, text: outcome.text, output: outcome.text, ...(outcome.denial ? { denial: outcome.denial } : {}) };
        }
        const value = await outcome.run<unknown>(async (approved: In, context) => {
          const returned = await tool.run(approved, context);
          hasRun = true;
          return returned;
        }, { signal });
        const output = toOutput(value);
        return { state: "success", text: textOf(output), output, value };
      } catch (err) {
        if (signal?.aborted) {
          if (!outcome) await gate.interrupt("the runtime cancelled the call", AbortSignal.timeout(interruptWithin)).catch(() => undefined); // the abort is what the caller asked for
          throw err;
        }
        const text = hasRun ? `The tool ran, do not call it again. Its result is lost: ${messageOf(err)}` : messageOf(err);
        return { state: "error", text, output: text };
      }
    };
  }

  /** A worker that serves tools over HTTP. Its `run` takes tasks until the signal aborts. */
  worker(tools: readonly WorkerTool[], options: WorkerOptions): Worker {
    return new Worker(this.#transport, tools, options);
  }

  /** The open approval requests, as calls in state `asking`. */
  async requests(options: { session?: string; tool?: string; signal?: AbortSignal } = {}): Promise<Call[]> {
    const out: Call[] = [];
    for (let after = 0; ; ) {
      const query: Array<[string, string]> = [["state", "asking"]];
      if (options.session !== undefined) query.push(["session_id", options.session]);
      if (options.tool !== undefined) query.push(["tool_name", options.tool]);
      if (after > 0) query.push(["after", String(after)]);
      const page = await this.#transport.call<ListReply>("listCalls", { query, signal: options.signal });
      if (!Array.isArray(page.calls)) throw invalidReply("list the requests", "the reply does not list calls");
      out.push(...page.calls);
      if (!page.next || page.next <= after) return out;
      after = page.next;
    }
  }

  /** Responds to the approval request of a call, and only to the one that `call` or `digest` identifies. */
  async respond(call: CallName & { digest?: string }, response: Response): Promise<Call> {
    const digest = response.digest ?? call.digest;
    if (!digest) throw new AskanceError("cannot respond: the call has no digest of an approval request", { code: "invalid", hint: "Pass a call of requests(), or its digest" });
    return this.#transport.call("submitResponse", { path: pathOf(call), body: { ...response, digest }, once: true });
  }

  /** A call with its history. */
  async show(call: CallName, signal?: AbortSignal): Promise<ShowReply> {
    return this.#transport.call("showCall", { path: pathOf(call), signal });
  }

  /** What would be decided about calls; see `Gate.preview`. */
  async preview(session: string, reply: string, proposals: readonly Proposal[], options: GateOptions = {}): Promise<Awaited<ReturnType<Gate["preview"]>>> {
    return this.gate(session, reply, options).preview(proposals, options.signal);
  }

  /** Who the credentials belong to. */
  async whoami(): Promise<WhoamiReply> {
    return this.#transport.call("whoami");
  }

  /** The engine that replies, and its policy. */
  async info(): Promise<InfoReply> {
    return this.#transport.call("info");
  }

  /** The events of a session, without an end. After a broken connection it resumes: no event is lost or repeated. */
  async *events(session: string, options: { after?: string; reply?: string; signal?: AbortSignal } = {}): AsyncGenerator<SessionEvent, void, undefined> {
    let id = options.after ?? "";
    const query: Array<[string, string]> = options.reply === undefined ? [] : [["reply_id", options.reply]];
    yield* this.#follow<SessionEvent>("readEvents", () => ({ path: { session_id: session }, query, headers: id ? { "Last-Event-ID": id } : {} }), options.signal, (e) => {
      id = e.id || id;
      return { id, event: readData(e.data) };
    });
  }

  /**
   * The open calls, then `ready`, then each change, without an end. After a broken
   * connection the open calls and `ready` come again.
   */
  async *callsStream(options: { session?: string; tool?: string; signal?: AbortSignal } = {}): AsyncGenerator<CallsEvent, void, undefined> {
    const query: Array<[string, string]> = [];
    if (options.session !== undefined) query.push(["session_id", options.session]);
    if (options.tool !== undefined) query.push(["tool_name", options.tool]);
    yield* this.#follow<CallsEvent>("watchCalls", () => ({ query }), options.signal, (e) => {
      if (e.event === "call" || e.event === "progress" || e.event === "ready") return { ...readData(e.data), type: e.event } as CallsEvent;
      return undefined; // after behind, the server ends the stream and it begins again
    });
  }

  async *#follow<T>(
    operation: "readEvents" | "watchCalls", request: () => object, signal: AbortSignal | undefined, read: (e: { id: string; event: string; data: string }) => T | undefined,
  ): AsyncGenerator<T, void, undefined> {
    for (;;) {
      const { body, release } = await this.#transport.repeat({ signal }, async (limit) => {
        const { signal: either, release } = anyOf(signal, limit);
        try {
          return { body: await this.#transport.stream(operation, { ...request(), signal: either }), release };
        } catch (err) {
          release();
          throw err;
        }
      });
      try {
        for await (const e of readStream(body)) {
          const out = read(e);
          if (out !== undefined) yield out;
        }
      } catch (err) {
        signal?.throwIfAborted();
        if (err instanceof AskanceError && !(err instanceof Unavailable)) throw err;
      } finally {
        release();
      }
      await this.#transport.clock.sleep(100, signal);
    }
  }
}

function pathOf(call: CallName): Record<string, string> {
  return { session_id: call.session_id, reply_id: call.reply_id ?? "", tool_call_id: call.tool_call_id ?? "" };
}

function readData(data: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(data);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // The same error follows.
  }
  throw invalidReply("follow the stream", "an event is not a JSON object");
}
