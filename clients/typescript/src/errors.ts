import type { Call, Problem } from "./api.js";

/** What went wrong. Programs branch on `code`, which comes from the server or this client. */
export class AskanceError extends Error {
  override readonly name: string = "AskanceError";
  /** The code: the server's (gateway/api/API.md), `invalid_reply`, `unfinished`, `untrusted` or `misconfigured`. */
  readonly code: string;
  /** The HTTP status; 0 if there was no reply. */
  readonly status: number;
  /** Whether the same request can succeed later. */
  readonly retryable: boolean;
  /** What to do. */
  readonly hint: string;
  /** The current state of the call, if the error is about one. */
  readonly call: Call | undefined;

  constructor(what: string, about: { code: string; status?: number; retryable?: boolean; hint?: string; call?: Call | undefined; cause?: unknown }) {
    super(about.hint ? `${what}. ${about.hint.charAt(0).toUpperCase()}${about.hint.slice(1)}` : what, about.cause === undefined ? {} : { cause: about.cause });
    this.code = about.code;
    this.status = about.status ?? 0;
    this.retryable = about.retryable ?? false;
    this.hint = about.hint ?? "";
    this.call = about.call;
  }
}

/** The server cannot be reached, is busy, or does not reply. Nothing runs. */
export class Unavailable extends AskanceError {
  override readonly name = "Unavailable";
}

/** The request does not match the current state, which `call` contains. */
export class Conflict extends AskanceError {
  override readonly name = "Conflict";
}

/** The token may not do this. */
export class Forbidden extends AskanceError {
  override readonly name = "Forbidden";
}

/** There is no such call or session. */
export class NotFound extends AskanceError {
  override readonly name = "NotFound";
}

/** Another process started the call and did not report a result. The call must not run again. */
export class Unfinished extends AskanceError {
  override readonly name = "Unfinished";

  constructor(call: Call) {
    super(`cannot run the call ${call.tool_call_id}: another process began it, and its outcome is unknown`, {
      code: "unfinished", call, hint: "Let an operator resolve the call (askance resolve), or declare the tool idempotent",
    });
  }
}

/** The error of an unsuccessful reply to a request that does this. `detail` is the server's text if there is one. */
export function errorOf(does: string, status: number, problem: Partial<Problem> | undefined): AskanceError {
  const fromServer = typeof problem?.code === "string" ? problem : undefined;
  const proxied = status === 429 ? "over_limit" : [502, 503, 504].includes(status) ? "unavailable" : "invalid_reply";
  const code = fromServer?.code ?? proxied;
  const retryable = fromServer ? status === 429 || code === "unavailable" || code === "overloaded" : code !== "invalid_reply";
  const about = {
    code, status, retryable, call: fromServer?.call,
    hint: fromServer ? fromServer.hint ?? "" : retryable ? "Try again later" : "Check the URL of the server",
  };
  const what = `cannot ${does}: ${fromServer?.detail ?? `the reply with status ${status} is not one of askance`}`;
  if (retryable || code === "unknown_outcome") return new Unavailable(what, about);
  if (code === "invalid_reply") return new AskanceError(what, about);
  switch (status) {
    case 401:
    case 403:
      return new Forbidden(what, about);
    case 404:
      return new NotFound(what, about);
    case 409:
      return new Conflict(what, about);
  }
  return new AskanceError(what, about);
}

/** The error of a reply that cannot be read. It never counts as an allow. */
export function invalidReply(does: string, why: string, status = 200): AskanceError {
  return new AskanceError(`cannot ${does}: ${why}`, { code: "invalid_reply", status, hint: "Check the URL and the version of the server" });
}

/** The error of settings that cannot work. */
export function misconfigured(what: string, hint: string): AskanceError {
  return new AskanceError(what, { code: "misconfigured", hint });
}

export function messageOf(err: unknown): string {
  return err instanceof Error ? err.message : String(err);
}
