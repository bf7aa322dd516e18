// What a worker checks before it runs a task: see bus/PROTOCOL.md, "Workers".
import type { EngineKey } from "./api.js";
import { canonicalize, integer, member, parseStrict, text, type Node } from "./json.js";

const utf8 = new TextEncoder();

export function hex(bytes: ArrayBuffer): string {
  return [...new Uint8Array(bytes)].map((b) => b.toString(16).padStart(2, "0")).join("");
}

export async function sha256(data: string | Uint8Array<ArrayBuffer>): Promise<string> {
  return hex(await crypto.subtle.digest("SHA-256", typeof data === "string" ? utf8.encode(data) : data));
}

/** A random id of 128 bits. */
export function randomID(): string {
  return hex(crypto.getRandomValues(new Uint8Array(16)).buffer);
}

/** The identity of a call. */
export interface CallKey {
  space: string;
  session_id: string;
  reply_id: string;
  tool_call_id: string;
}

const keyParts = ["space", "session_id", "reply_id", "tool_call_id"] as const;

/** The key that all attempts of one call share, and no other call has. Pass it to the system that has the effect. */
export async function idempotencyKey(key: CallKey): Promise<string> {
  const parts = keyParts.map((name) => utf8.encode(key[name]));
  const domain = utf8.encode("askance-idempotency-v1\0");
  const out = new Uint8Array(domain.length + parts.reduce((n, p) => n + 8 + p.length, 0));
  out.set(domain);
  let at = domain.length;
  for (const part of parts) {
    new DataView(out.buffer).setBigUint64(at, BigInt(part.length));
    out.set(part, at + 8);
    at += 8 + part.length;
  }
  return `ak_${await sha256(out)}`;
}

/** The id of a call without one. The same proposal gets the same id after a restart. */
export async function deriveCallID(reply: string, index: number, name: string, input: string): Promise<string> {
  let form = input;
  try {
    form = canonicalize(input);
  } catch {
    // Text without a canonical form is used unchanged.
  }
  return `call_${(await sha256(canonicalize(JSON.stringify(["askance-call-v1", reply, index, name, form])))).slice(0, 32)}`;
}

/** A public key. Projects without the types of the DOM have no CryptoKey. */
export type PublicKey = Awaited<ReturnType<typeof crypto.subtle.importKey>>;

/** The public keys that a worker trusts, by their ids. */
export type KeySet = Map<string, PublicKey>;

/** Reads base64url in the only form that has these bytes. */
function fromBase64URL(s: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    const bytes = atob(s.replaceAll("-", "+").replaceAll("_", "/"));
    const form = btoa(bytes).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
    return form === s ? Uint8Array.from(bytes, (c) => c.charCodeAt(0)) : undefined;
  } catch {
    return undefined;
  }
}

/** Reads a public key: `ed25519:` and 32 bytes in base64url. */
export async function readPublicKey(public_key: string): Promise<{ id: string; key: PublicKey }> {
  const raw = /^ed25519:[\w-]{43}$/.test(public_key) ? fromBase64URL(public_key.slice("ed25519:".length)) : undefined;
  if (raw?.length !== 32) throw new TypeError(`${JSON.stringify(public_key.slice(0, 80))} is not ed25519: and 32 bytes in base64url`);
  const key = await crypto.subtle.importKey("raw", raw, "Ed25519", false, ["verify"]);
  return { id: (await sha256(raw)).slice(0, 16), key };
}

/** The public keys that a reader trusts, and the ids of retired ones. */
export interface KnownKeys {
  trusted: KeySet;
  retired: Set<string>;
}

/** Reads public keys, or the text of the file engine.pub, which can contain several. Retired keys are left out. */
export async function readKeys(texts: readonly string[]): Promise<KeySet> {
  return (await readKnownKeys(texts)).trusted;
}

/** Reads the keys as readKeys does, and the ids of retired ones. */
export async function readKnownKeys(texts: readonly string[]): Promise<KnownKeys> {
  const out: KnownKeys = { trusted: new Map(), retired: new Set() };
  for (const t of texts) {
    if (!t.trimStart().startsWith("{")) {
      const { id, key } = await readPublicKey(t.trim());
      out.trusted.set(id, key);
      continue;
    }
    const file = parseStrict(t);
    const keys = member(file, "keys");
    if (integer(file, "v") !== 1 || keys?.kind !== "array") throw new TypeError("it is not an askance public key file of version 1");
    for (const k of keys.items) {
      const { id, key } = await readPublicKey(`ed25519:${text(k, "public_key") ?? ""}`);
      if (id !== text(k, "id")) throw new TypeError("the id of a key in the public key file is not that of the key");
      out.trusted.set(id, key);
      if (member(k, "retired")) out.retired.add(id);
    }
  }
  for (const id of out.retired) out.trusted.delete(id);
  return out;
}

async function isSigned(key: PublicKey | undefined, domain: string, form: string, sig: string | undefined): Promise<boolean> {
  const raw = sig === undefined ? undefined : fromBase64URL(sig);
  return key !== undefined && raw?.length === 64 && crypto.subtle.verify("Ed25519", key, raw, utf8.encode(`${domain}\n${form}`));
}

/** The canonical form of an object without its signature. */
function unsigned(node: Node): string {
  return canonicalize(node.kind === "object" ? { ...node, members: node.members.filter(([name]) => name !== "sig") } : node);
}

/** Applies a ring of unknown origin to the keys that a reader trusts. */
export async function followKeys(ring: readonly EngineKey[], trusted: KeySet, retired: ReadonlySet<string>): Promise<KnownKeys> {
  const known: KeySet = new Map(trusted);
  const gone = new Set(retired);
  const form = (value: object) => canonicalize(JSON.stringify(value));
  for (const k of ring) {
    const read = await readPublicKey(k.public_key).catch(() => undefined);
    if (!read || read.id !== k.id || known.has(k.id) || !k.by || gone.has(k.by)) continue;
    const introduction = form({ by: k.by, id: k.id, public_key: k.public_key, ...(k.since === undefined ? {} : { since: k.since }) });
    if (await isSigned(known.get(k.by), "askance-key-v1", introduction, k.sig)) known.set(k.id, read.key);
  }
  for (const k of ring) {
    if (!k.retired || !k.retired_by || k.retired_by === k.id || gone.has(k.retired_by)) continue;
    const end = form({ id: k.id, public_key: k.public_key, retired: k.retired, retired_by: k.retired_by });
    if (await isSigned(known.get(k.retired_by), "askance-key-retired-v1", end, k.retired_sig)) gone.add(k.id);
  }
  for (const id of gone) known.delete(id);
  return { trusted: known, retired: gone };
}

/** The time of an RFC 3339 text in milliseconds, with fractions; NaN if the text is invalid. */
export function readTime(t: string | undefined): number {
  const m = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)$/.exec(t ?? "");
  return m ? Date.parse(`${m[1]}${m[3]}`) + Number(m[2] ?? 0) * 1000 : NaN;
}

/** The digest of an approval request: hidden values enter as salted commitments. */
export async function digestOf(request: Node): Promise<string> {
  const hidden = member(request, "hidden");
  const salt = text(request, "salt");
  if (request.kind !== "object" || hidden?.kind !== "array" || hidden.items.length === 0 || !salt) {
    return `sha256:${await sha256(canonicalize(request))}`;
  }
  const paths = hidden.items.map((item) => text(item) ?? "");
  const input = await conceal(text(request, "input") ?? "", paths, salt);
  const members = request.members.filter(([name]) => name !== "salt" && name !== "input");
  members.push(["input", { kind: "string", value: input, start: 0, end: 0 }]);
  return `sha256:${await sha256(canonicalize({ ...request, members }))}`;
}

interface Remainder {
  steps: string[];
  /** The path reached elements of a list only through its star. */
  wide: boolean;
}

/** Replaces the values at the paths by commitments; all else stays unchanged. */
async function conceal(input: string, paths: string[], salt: string): Promise<string> {
  const key = await crypto.subtle.importKey("raw", utf8.encode(salt), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  let out = "";
  let at = 0;
  for (const s of findSpots(input, paths)) {
    const mac = await crypto.subtle.sign("HMAC", key, utf8.encode(`askance-hidden-v1\0${s.place}\0${input.slice(s.start, s.end)}`));
    out += `${input.slice(at, s.start)}"[redacted hmac-sha256:${hex(mac)}]"`;
    at = s.end;
  }
  return out + input.slice(at);
}

interface Spot {
  start: number;
  end: number;
  place: string;
}

/** Finds the hidden values. Arguments that cannot be parsed are hidden completely. */
function findSpots(input: string, paths: string[]): Spot[] {
  try {
    const root = parseStrict(input, 64);
    const below = paths.map((p): Remainder => ({ steps: parsePath(p), wide: false }));
    if (root.kind === "object") return spotsBelow(root, "args", below);
  } catch {
    // The input is not JSON, or a path is invalid.
  }
  return [{ start: 0, end: input.length, place: "args" }];
}

function spotsBelow(node: Node, at: string, paths: Remainder[]): Spot[] {
  const parts: Array<[string, Node]> = node.kind === "object" ? node.members : node.kind === "array" ? node.items.map((v, i) => [String(i), v]) : [];
  return parts.flatMap(([name, value]) => {
    const leaf = value.kind !== "object" && value.kind !== "array";
    const place = `${at}[${quote(name)}]`;
    let hidden = false;
    const below: Remainder[] = [];
    for (const r of paths) {
      if (r.steps[0] !== name && r.steps[0] !== "*") continue;
      hidden ||= r.steps.length === 1 || (leaf && !r.wide);
      below.push({ steps: r.steps.slice(1), wide: r.wide });
    }
    if (node.kind === "array") {
      for (const r of paths) {
        hidden ||= leaf && !r.wide && !/^\d*$/.test(r.steps[0] ?? "") && r.steps[0] !== "*";
        below.push({ steps: r.steps, wide: r.wide || r.steps[0] === "*" });
      }
    }
    if (hidden) return [{ start: value.start, end: value.end, place }];
    return leaf ? [] : spotsBelow(value, place, below.filter((r) => r.steps.length > 0));
  });
}

/** Reads the steps of a path such as args.card["odd name"]. */
function parsePath(path: string): string[] {
  const steps: string[] = [];
  const step = /\.([^.["'() ]+)|\[("(?:[^"\\]|\\.)*")\]/y;
  if (!/^args[.[]/.test(path)) throw new SyntaxError("the path does not begin with args");
  step.lastIndex = "args".length;
  while (step.lastIndex < path.length) {
    const m = step.exec(path);
    if (!m) throw new SyntaxError("the path cannot be read");
    steps.push(m[1] ?? (JSON.parse(m[2] ?? "") as string));
  }
  if (steps.length > 64) throw new SyntaxError("the path has too many steps");
  return steps;
}

/** Quotes a name as Go does. */
function quote(name: string): string {
  const short: Record<string, string> = { "\x07": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", '"': '\\"', "\\": "\\\\" };
  const escaped = [...name].map((c) => {
    const code = c.codePointAt(0) ?? 0;
    if (short[c]) return short[c];
    if (code < 0x20 || code === 0x7f) return `\\x${code.toString(16).padStart(2, "0")}`;
    if (c === " " || /[\p{L}\p{M}\p{N}\p{P}\p{S}]/u.test(c)) return c;
    return code < 0x10000 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
  });
  return `"${escaped.join("")}"`;
}

/** The version of event records that this client reads. */
const recordVersion = 2;

/** What to do with a task: run it, reject it, acknowledge it as expired, or return it as too early. */
export type Verdict = "run" | "refuse" | "expired" | "early";

/** A checked task. */
export interface Checked {
  verdict: Verdict;
  reason: string;
  key: CallKey;
  attempt: number;
  nonce: string;
  keyID: string;
  input: string;
  idempotencyKey: string;
  expires: number;
}

/** Which calls a worker runs, and whose signatures it trusts. */
export interface Checks {
  tool: string;
  subject: string;
  keys: KeySet;
  /** The wall clock, in milliseconds. */
  now: number;
}

/** Checks a task by its event record. Anything that is not proved is refused. */
export async function checkTask(record: Node, checks: Checks): Promise<Checked> {
  const call = member(record, "call");
  const request = member(call, "request");
  const grant = member(member(call, "attempt"), "grant");
  const attempt = integer(call, "attempt", "number") ?? 0;
  const key = Object.fromEntries(keyParts.map((name) => [name, text(call, name) ?? ""])) as unknown as CallKey;
  const expires = readTime(text(grant, "expires"));
  const out: Checked = {
    verdict: "refuse", reason: "", key, attempt, expires, keyID: text(grant, "key_id") ?? "", nonce: text(grant, "nonce") ?? "",
    input: text(request, "input") ?? "", idempotencyKey: text(grant, "idempotency_key") ?? "",
  };
  const decide = (verdict: Verdict, reason: string): Checked => ({ ...out, verdict, reason });
  const refuse = (reason: string): Checked => decide("refuse", reason);

  const version = integer(record, "v");
  if (version !== recordVersion) return version !== undefined && version > recordVersion ? decide("early", "the record is for newer workers") : refuse("it is not an event record");
  const isOffered = text(call, "state") === "submitted" && text(call, "placement") === "remote" && attempt > 0 && !member(record, "note")
    && !text(call, "attempt", "claim") && !text(call, "attempt", "started_at") && !text(call, "blocked") && !text(call, "retry_at");
  if (!isOffered || text(call, "tool_name") !== checks.tool || (text(call, "decision", "route") ?? "") !== checks.subject) {
    return refuse(`it is not an unstarted remote attempt of the tool ${checks.tool}`);
  }
  const signer = checks.keys.get(out.keyID);
  if (grant && !signer) {
    if (checks.now >= expires) return decide("expired", "the grant has expired");
    return refuse(`the grant is signed by an engine key that this worker does not know, ${JSON.stringify(out.keyID.slice(0, 64))}; give the worker that engine's public key if it is to trust it`);
  }
  if (!request) return refuse("it has no approval request that a grant could stand for");
  if (!grant) return refuse("there is no grant");
  const callID = (n: Node | undefined) => JSON.stringify(keyParts.map((name) => text(n, name) ?? null));
  if (callID(request) !== callID(call)) return refuse("the approval request is about another call");
  if (text(request, "tool_name") !== checks.tool) return refuse("the approval request is about another tool");
  if (text(request, "input") === undefined || text(request, "input") !== text(call, "input")) return refuse("the arguments are not the ones of the approval request");
  try {
    if (!(await isSigned(signer, "askance-grant-v1", unsigned(grant), text(grant, "sig")))) return refuse("the signature of the grant does not match");
    const hidden = member(request, "hidden");
    if (hidden?.kind === "array" && hidden.items.length > 0 && !text(request, "salt")) return refuse("the arguments are redacted");
    if ((await digestOf(request)) !== text(grant, "digest")) return refuse("the arguments are not the ones that were approved");
  } catch (err) {
    return refuse(`the grant has no canonical form: ${(err as Error).message}`);
  }
  if (integer(grant, "v") !== 1) return refuse("the version of the grant is unknown: update the worker");
  if (callID(grant) !== callID(call)) return refuse("the grant is for another call");
  if (text(grant, "tool_name") !== checks.tool) return refuse("the grant is for another tool");
  if ((text(grant, "route") ?? "") !== checks.subject) return refuse("the grant is for another route: start a worker with the subject that the policy names");
  if (integer(grant, "attempt") !== attempt) return refuse("the grant is for another attempt");
  if (text(grant, "bundle") === undefined || text(grant, "bundle") !== text(request, "bundle")) return refuse("the grant names another policy bundle");
  const begins = readTime(text(grant, "not_before"));
  if (!(begins < expires)) return refuse("the grant is never valid");
  if (checks.now < begins) return decide("early", "the grant is not valid yet: compare the clocks of worker and engine");
  if (!(checks.now < expires)) return decide("expired", "the grant has expired");
  if (!out.nonce || out.idempotencyKey !== (await idempotencyKey(key))) return refuse("the grant's idempotency key is not the call's");
  return decide("run", "");
}

/** What a start reply must be about. */
export interface StartClaim {
  key: CallKey;
  attempt: number;
  claim: string;
  request: string;
  nonce: string;
}

/** Checks that an engine signed this permission for exactly this request. Returns what is wrong, or "". */
export async function checkStart(reply: Node, keys: KeySet, asked: StartClaim): Promise<string> {
  const signer = keys.get(text(reply, "key_id") ?? "");
  if (!signer) return "it is signed by an unknown engine key";
  try {
    if (!(await isSigned(signer, "askance-start-v1", unsigned(reply), text(reply, "sig")))) return "the signature does not match";
  } catch (err) {
    return `it has no canonical form: ${(err as Error).message}`;
  }
  if (integer(reply, "v") !== 1) return "its version is unknown";
  if (keyParts.some((name) => text(reply, name) !== asked.key[name])) return "it is about another call";
  if (integer(reply, "attempt") !== asked.attempt) return "it is about another attempt";
  if (!asked.claim || text(reply, "claim") !== asked.claim) return "it is about another claim";
  if (text(reply, "request") !== asked.request) return "it answers another sending of the request";
  if (text(reply, "grant_nonce") !== asked.nonce) return "it is about another grant";
  if (text(reply, "idempotency_key") !== (await idempotencyKey(asked.key))) return "its idempotency key is not the call's";
  return "";
}
