// Sends requests, and repeats those that are safe to repeat.
import { operations } from "./api.js";
import { AskanceError, errorOf, invalidReply, messageOf, misconfigured, Unavailable } from "./errors.js";
import { parseStrict, type Node } from "./json.js";
import { randomID } from "./proof.js";
import { socketFetch } from "./socket.js";

/** The server's URL and the client's credentials. */
export interface ClientOptions {
  /** The server's URL, or `unix:///path` of its Unix socket; default: `ASKANCE_URL`, else `http://127.0.0.1:8787`. */
  url?: string;
  /** The bearer token; default: `ASKANCE_TOKEN`. A server without tokens needs none. */
  token?: string;
  /** For how long a request is repeated while the server cannot be reached or is busy, in milliseconds; default 30,000. */
  retryFor?: number;
  /** Another fetch. */
  fetch?: typeof fetch;
  /** Another clock, for tests. */
  clock?: Clock;
}

/** The clocks that the client uses. */
export interface Clock {
  /** The wall clock, in milliseconds. */
  now(): number;
  /** A monotonic clock, in milliseconds. */
  monotonic(): number;
  /** Waits; it rejects when the signal aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** The clock of the machine. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      const stop = () => {
        clearTimeout(timer);
        reject(signal?.reason);
      };
      const timer = setTimeout(() => {
        signal?.removeEventListener("abort", stop);
        resolve();
      }, ms);
      if (signal?.aborted) stop();
      else signal?.addEventListener("abort", stop, { once: true });
    }),
};

/**
 * A signal that aborts with any of these, until release is called. AbortSignal.any does not do:
 * Node.js can collect an AbortSignal.timeout that nothing else listens to, and then it never aborts.
 */
export function anyOf(...signals: ReadonlyArray<AbortSignal | undefined>): { signal: AbortSignal; release: () => void } {
  const either = new AbortController();
  const listening = new AbortController();
  for (const signal of signals) {
    if (signal?.aborted) either.abort(signal.reason);
    else signal?.addEventListener("abort", () => either.abort(signal.reason), { once: true, signal: listening.signal });
  }
  return { signal: either.signal, release: () => listening.abort() };
}

/** The name of an operation of the API. */
export type Operation = keyof typeof operations;

/** One request. */
export interface Request {
  path?: Record<string, string>;
  query?: ReadonlyArray<readonly [string, string]>;
  body?: unknown;
  /** Whether it changes something once: it gets an `Idempotency-Key`. */
  once?: boolean;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
  /** How long the server may hold the request, in milliseconds. */
  hold?: number;
  /** How long to wait for a reply to each attempt, in milliseconds; default: 40 seconds and hold. */
  within?: number;
  /** How long it is repeated, in milliseconds; default: the client's. */
  retryFor?: number;
  /** Receives the error before each repetition. */
  retried?: (err: Unavailable) => void;
}

const pauses = [100, 200, 500, 1000, 2000];
/** How long a server may take for a reply that it does not hold on purpose. */
const replyWithin = 40_000;
/** In bytes. The server closes the connection of a larger body, which looks like no reply. */
const largestBody = 768 * 1024;

function variable(name: string): string | undefined {
  const scope = globalThis as { process?: { env?: Record<string, string | undefined> } };
  return scope.process?.env?.[name];
}

/** Whether requests can be sent to a URL. fetch reports another one as it reports a server that is down. */
function isUsable(url: string): boolean {
  try {
    const { username, password } = new URL(url);
    return /^https?:\/\/[^?#\s]+$/.test(url) && username === "" && password === "";
  } catch {
    return false;
  }
}

/** The connection to one server. */
export class Transport {
  readonly url: string;
  readonly clock: Clock;
  /** By call, the claims of beginnings that got no reply and may be recorded. */
  readonly claims = new Map<string, string>();
  readonly #token: string;
  readonly #retryFor: number;
  readonly #fetch: typeof fetch;
  readonly #base: string;

  constructor(options: ClientOptions) {
    this.url = (options.url ?? variable("ASKANCE_URL") ?? "http://127.0.0.1:8787").replace(/\/+$/, "");
    const socket = /^unix:\/\/(\/[^\0]+)$/.exec(this.url)?.[1];
    this.#base = socket ? "http://localhost" : this.url;
    if (!isUsable(this.#base)) throw misconfigured(`the URL ${JSON.stringify(this.url)} cannot be used`, "Give the URL of the server, such as https://askance.example or unix:///path");
    if (socket && options.fetch) throw misconfigured("a fetch of your own cannot use a Unix socket", "Leave out fetch, or give an http or https URL");
    this.#token = options.token ?? variable("ASKANCE_TOKEN") ?? "";
    if (!/^[\x21-\x7e]*$/.test(this.#token)) throw misconfigured("the token has characters that no token has", "Copy what askance token create prints");
    this.#retryFor = options.retryFor ?? 30_000;
    this.#fetch = options.fetch ?? (socket ? socketFetch(socket) : (input, init) => globalThis.fetch(input, init));
    this.clock = options.clock ?? systemClock;
  }

  /** Sends a request and reads its reply as an object. */
  async call<T>(operation: Operation, request: Request = {}): Promise<T> {
    return JSON.parse(await this.text(operation, request)) as T;
  }

  /** The same for a reply that is hashed: its numbers stay unchanged. */
  async read(operation: Operation, request: Request = {}): Promise<{ node: Node; text: string }> {
    const text = await this.text(operation, request);
    return { node: parseStrict(text), text };
  }

  /** Sends a request until there is a reply, for the configured time. */
  async text(operation: Operation, request: Request): Promise<string> {
    const key = request.once ? randomID() : "";
    const { does } = operations[operation];
    return this.repeat(request, async (signal) => {
      const response = await this.#send(operation, request, key, signal);
      const body = await response.text().catch((cause: unknown) => { throw this.#silent(does, cause); });
      if (!response.ok) throw problemOf(does, response, body);
      check(does, response, body);
      return body;
    });
  }

  /** Opens a stream of server-sent events. */
  async stream(operation: Operation, request: Request): Promise<ReadableStream<Uint8Array>> {
    const response = await this.#send(operation, { ...request, headers: { ...request.headers, Accept: "text/event-stream" } }, "", request.signal);
    const { does } = operations[operation];
    if (!response.ok) throw problemOf(does, response, await response.text().catch(() => ""));
    if (!mediaType(response).startsWith("text/event-stream") || !response.body) throw invalidReply(does, "the reply is not a stream", response.status);
    return response.body;
  }

  /** Repeats requests that failed temporarily. */
  async repeat<T>(request: Pick<Request, "signal" | "hold" | "within" | "retryFor" | "retried">, send: (signal: AbortSignal) => Promise<T>): Promise<T> {
    let end: number | undefined;
    for (let tries = 0; ; tries++) {
      request.signal?.throwIfAborted();
      const limit = new AbortController();
      const { signal, release } = anyOf(request.signal, limit.signal);
      const timer = setTimeout(() => limit.abort(new Error("the server did not reply in time")), request.within ?? replyWithin + (request.hold ?? 0));
      try {
        return await send(signal);
      } catch (err) {
        request.signal?.throwIfAborted();
        if (!(err instanceof Unavailable)) throw err;
        end ??= this.clock.monotonic() + (request.retryFor ?? this.#retryFor);
        const pause = Math.max(pauses[Math.min(tries, pauses.length - 1)] ?? 0, (err as { retryAfter?: number }).retryAfter ?? 0);
        if (this.clock.monotonic() + pause >= end) throw err;
        request.retried?.(err);
        await this.clock.sleep(pause, request.signal);
      } finally {
        clearTimeout(timer);
        release();
      }
    }
  }

  async #send(operation: Operation, request: Request, key: string, signal: AbortSignal | undefined): Promise<Response> {
    const { method, path, does } = operations[operation];
    const place = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeID(request.path?.[name] ?? "", name));
    const query = (request.query ?? []).map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");
    const headers: Record<string, string> = { Accept: "application/json", ...request.headers };
    if (this.#token) headers["Authorization"] = `Bearer ${this.#token}`;
    if (request.body !== undefined) headers["Content-Type"] = "application/json";
    if (key) headers["Idempotency-Key"] = key;
    const body = request.body === undefined ? undefined : JSON.stringify(request.body);
    const size = new TextEncoder().encode(body).length;
    if (size > largestBody) {
      throw new AskanceError(`cannot ${does}: the body has ${size} bytes, the limit is ${largestBody}`, { code: "too_large", status: 413, hint: "Store large data elsewhere and send a reference" });
    }
    try {
      return await this.#fetch(`${this.#base}${place}${query && `?${query}`}`, {
        method, headers, redirect: "manual", ...(signal ? { signal } : {}), ...(body === undefined ? {} : { body }),
      });
    } catch (cause) {
      throw cause instanceof AskanceError ? cause : this.#silent(does, cause);
    }
  }

  #silent(does: string, cause: unknown): Unavailable {
    const why = messageOf((cause as { cause?: unknown } | null)?.cause ?? cause); // fetch itself says only "fetch failed"
    return new Unavailable(`cannot ${does}: the server at ${this.url} does not answer${why && ` (${why})`}`, { code: "unavailable", retryable: true, hint: "Check that askance serve runs there", cause });
  }
}

/** Percent-encodes an id. Ids that no URL can contain are refused before anything is sent. */
export function encodeID(id: string, name: string): string {
  if (id === "" || id === "." || id === ".." || id === "/" || /\p{Surrogate}/u.test(id)) {
    throw new AskanceError(`cannot use ${JSON.stringify(id)} as ${name}: no URL can name it`, { code: "invalid", hint: "Choose another id" });
  }
  return encodeURIComponent(id);
}

function mediaType(response: Response): string {
  return (response.headers.get("Content-Type") ?? "").toLowerCase();
}

function check(does: string, response: Response, body: string): void {
  let value: unknown;
  try {
    value = mediaType(response).startsWith("application/json") ? JSON.parse(body) : undefined;
  } catch {
    // The text counts as invalid JSON below.
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw invalidReply(does, "the reply is not a JSON object", response.status);
}

function problemOf(does: string, response: Response, body: string): AskanceError {
  let problem: object | undefined;
  try {
    const value: unknown = mediaType(response).startsWith("application/problem+json") ? JSON.parse(body) : undefined;
    if (typeof value === "object" && value !== null) problem = value;
  } catch {
    // A reply without a code comes from a proxy.
  }
  const err = errorOf(does, response.status, problem);
  const seconds = Number(response.headers.get("Retry-After") ?? "");
  return seconds > 0 ? Object.assign(err, { retryAfter: seconds * 1000 }) : err;
}
