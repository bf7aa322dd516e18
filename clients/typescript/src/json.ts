// A strict reader of JSON that keeps numbers as text, and the canonical form of RFC 8785.

/** A JSON value that was read strictly; start and end are offsets into its text. */
export type Node = { start: number; end: number } & (
  | { kind: "object"; members: Array<[name: string, value: Node]> }
  | { kind: "array"; items: Node[] }
  | { kind: "string"; value: string }
  | { kind: "number"; text: string }
  | { kind: "literal"; value: boolean | null }
);

/** Reads one JSON value. It refuses repeated names, lone surrogates and deep nesting. */
export function parseStrict(text: string, maxDepth = 1000): Node {
  let at = 0;

  function fail(what: string): never {
    throw new SyntaxError(`${what} at offset ${at}`);
  }
  function skipSpace(): void {
    while (at < text.length && " \t\n\r".includes(text.charAt(at))) at++;
  }
  function readString(): string {
    const start = at;
    for (at++; text[at] !== '"'; at++) {
      if (at >= text.length) fail("unfinished text");
      if (text[at] === "\\") at++;
    }
    at++;
    const value = JSON.parse(text.slice(start, at)) as string;
    if (/\p{Surrogate}/u.test(value)) fail("a lone surrogate");
    return value;
  }
  function readNode(depth: number): Node {
    skipSpace();
    const start = at;
    const c = text[at];
    if (c === "{" || c === "[") {
      if (depth >= maxDepth) fail("nesting is too deep");
      return c === "{" ? readObject(start, depth + 1) : readArray(start, depth + 1);
    }
    if (c === '"') return { kind: "string", value: readString(), start, end: at };
    const token = /(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)/y;
    token.lastIndex = at;
    const found = token.exec(text)?.[0];
    if (found === undefined) fail("no JSON value");
    at += found.length;
    if (found === "true" || found === "false" || found === "null") {
      return { kind: "literal", value: JSON.parse(found) as boolean | null, start, end: at };
    }
    return { kind: "number", text: found, start, end: at };
  }
  /** Reads elements up to the closing character. */
  function readList(close: string, element: () => void): void {
    at++;
    skipSpace();
    if (text[at] === close) {
      at++;
      return;
    }
    for (;;) {
      element();
      skipSpace();
      const c = text[at];
      if (c !== "," && c !== close) fail(`neither a comma nor ${close}`);
      at++;
      if (c === close) return;
      skipSpace();
    }
  }
  function readObject(start: number, depth: number): Node {
    const members: Array<[string, Node]> = [];
    const names = new Set<string>();
    readList("}", () => {
      if (text[at] !== '"') fail("no name");
      const name = readString();
      if (names.has(name)) fail("a name occurs twice");
      names.add(name);
      skipSpace();
      if (text[at] !== ":") fail("no colon");
      at++;
      members.push([name, readNode(depth)]);
    });
    return { kind: "object", members, start, end: at };
  }
  function readArray(start: number, depth: number): Node {
    const items: Node[] = [];
    readList("]", () => items.push(readNode(depth)));
    return { kind: "array", items, start, end: at };
  }

  const node = readNode(0);
  skipSpace();
  if (at !== text.length) fail("more than one value");
  return node;
}

/** Whether JSON writes what the value is; else it writes null or {}, or leaves the value out. */
function hasForm(v: unknown, inList: boolean): boolean {
  if (typeof v === "number") return Number.isFinite(v);
  if (v === undefined) return !inList;
  if (typeof v !== "object" || v === null) return typeof v !== "function" && typeof v !== "symbol";
  if (Array.isArray(v) || "toJSON" in v) return true;
  const proto: unknown = Object.getPrototypeOf(v);
  const plain = proto === null || Object.getPrototypeOf(proto) === null; // each realm has its Object.prototype
  const hidden = ["[object Error]", "[object Map]", "[object Set]", "[object Promise]"].includes(Object.prototype.toString.call(v));
  return plain || (!hidden && Object.keys(v).length > 0); // of an instance, JSON writes the fields
}

/** Writes a value as JSON text, without members that are undefined and with 0 for -0. It refuses values without a JSON form. */
export function writeJSON(value: unknown, check?: (v: unknown) => void): string {
  const text = JSON.stringify(value, function (this: unknown, name, v: unknown) {
    if (!hasForm(v, Array.isArray(this))) throw new TypeError(`the value ${name} has no JSON form`);
    check?.(v);
    return v;
  });
  if (text === undefined) throw new TypeError("the value has no JSON form");
  return text;
}

/** Writes the arguments of a call. It refuses an integer that may have been another one before JavaScript read it. */
export function writeArguments(value: unknown): string {
  return writeJSON(value ?? {}, (v) => {
    if (typeof v === "number" && Math.abs(v) >= 2 ** 53) throw inexact(String(v));
  });
}

/** Reads the arguments of a call. It refuses a number that JavaScript would change, except for the last digits of a fraction. */
export function parseArguments(text: string): unknown {
  const check = (node: Node): void => {
    if (node.kind === "number") canonicalNumber(node.text, false);
    else if (node.kind === "array") node.items.forEach(check);
    else if (node.kind === "object") node.members.forEach(([, v]) => check(v));
  };
  check(parseStrict(text));
  return JSON.parse(text);
}

/** Writes a value in the canonical form. Numbers that the form would change are refused. */
export function canonicalize(value: string | Node): string {
  const node = typeof value === "string" ? parseStrict(value) : value;
  switch (node.kind) {
    case "object": {
      const members = [...node.members].sort(([a], [b]) => (a < b ? -1 : 1));
      return `{${members.map(([name, v]) => `${JSON.stringify(name)}:${canonicalize(v)}`).join(",")}}`;
    }
    case "array":
      return `[${node.items.map(canonicalize).join(",")}]`;
    case "number":
      return canonicalNumber(node.text);
    default:
      return JSON.stringify(node.value);
  }
}

function canonicalNumber(text: string, isFloat = /[.eE]/.test(text)): string {
  const value = Number(text);
  const exact = value === 0
    ? digitsOf(text) === ""
    : Number.isFinite(value) && (isFloat || Math.abs(value) < 2 ** 53 || digitsOf(String(value)) === digitsOf(text));
  if (!exact) throw inexact(text);
  return String(value === 0 ? 0 : value);
}

/** The digits of a number without sign, point, exponent and zeros at its ends. */
function digitsOf(text: string): string {
  return (text.split(/[eE]/)[0] ?? "").replace(/[-.]/g, "").replace(/^0+|0+$/g, "");
}

function inexact(text: string): RangeError {
  return new RangeError(`the number ${text.slice(0, 40)} cannot be represented exactly; send it as a string`);
}

/** The member of an object; undefined if it is absent or the node is not an object. */
export function member(node: Node | undefined, name: string): Node | undefined {
  return node?.kind === "object" ? node.members.find(([n]) => n === name)?.[1] : undefined;
}

/** A text at a path of names; undefined if there is none. */
export function text(node: Node | undefined, ...path: string[]): string | undefined {
  const found = path.reduce(member, node);
  return found?.kind === "string" ? found.value : undefined;
}

/** An integer at a path of names; undefined if there is none. */
export function integer(node: Node | undefined, ...path: string[]): number | undefined {
  const found = path.reduce(member, node);
  if (found?.kind !== "number") return undefined;
  const value = Number(found.text);
  return Number.isSafeInteger(value) ? value : undefined;
}
