// Requests over a Unix socket, with the modules of Node.js that Deno and Bun also have.
import { AskanceError, invalidReply, misconfigured } from "./errors.js";

interface Status {
  mode: number;
  uid: number;
  isSymbolicLink(): boolean;
}

interface Incoming {
  statusCode: number;
  headers: Record<string, string | string[] | undefined>;
  destroy(): void;
}

interface Outgoing {
  once(event: "error", listener: (err: Error) => void): Outgoing;
  end(body?: string): void;
}

/** What is used of the modules. */
interface Modules {
  "node:fs": { statSync(path: string): Status; lstatSync(path: string): Status; readlinkSync(path: string): string };
  "node:http": { request(options: object, reply: (message: Incoming) => void): Outgoing };
  "node:stream": { Readable: { toWeb(message: Incoming): ReadableStream<Uint8Array> } };
}

interface Process {
  getBuiltinModule?: <Name extends keyof Modules>(name: Name) => Modules[Name];
  geteuid?: () => number;
}

/** Returns a fetch that sends every request to a socket. */
export function socketFetch(path: string): typeof fetch {
  const { getBuiltinModule: load, geteuid } = (globalThis as { process?: Process }).process ?? {};
  if (!load || !geteuid) throw misconfigured(`the Unix socket ${path} cannot be used here`, "Use Node.js 20.16 or later, Deno or Bun on a Unix system, or an http or https URL");
  const user = geteuid();
  return async (input, init = {}) => {
    checkSocket(load, user, path);
    const { pathname, search } = new URL(String(input));
    const { method, headers, signal, body } = init;
    const options = { socketPath: path, path: pathname + search, method, headers: { Host: "localhost", ...headers as Record<string, string> }, signal, agent: false };
    const message = await new Promise<Incoming>((resolve, reject) => {
      load("node:http").request(options, resolve).once("error", reject).end(body as string | undefined);
    });
    const { statusCode: status } = message;
    if (status < 200 || status > 599) { // no Response can have it
      message.destroy();
      throw invalidReply(`use the socket ${path}`, `the reply has the status ${status}`, status);
    }
    const entries = Object.entries(message.headers).map(([name, value]) => [name, String(value)] as [string, string]);
    return new Response([204, 205, 304].includes(status) ? null : load("node:stream").Readable.toWeb(message), { status, headers: entries });
  };
}

/** Refuses a socket that another user could have put there while the server is down. */
function checkSocket(load: NonNullable<Process["getBuiltinModule"]>, user: number, path: string): void {
  const fs = load("node:fs");
  const refuse = (why: string, hint: string): never => {
    throw new AskanceError(`cannot use the socket ${path}: ${why}`, { code: "untrusted", hint });
  };
  /** Checks the folders of a path up to its first symbolic link, and returns the path without that link. */
  const follow = (at: string): string | undefined => {
    const names = at.split("/").filter((name) => name !== "" && name !== ".");
    let folder = ""; // the root
    for (const [i, name] of names.entries()) {
      if (name === "..") { // the folder above a link's target, not above the link
        folder = folder.slice(0, folder.lastIndexOf("/"));
        continue;
      }
      const file = `${folder}/${name}`;
      const { mode } = fs.statSync(folder || "/");
      const status = find(file);
      const isKept = (mode & 0o1000) !== 0 && i + 1 < names.length && status && [0, user].includes(status.uid);
      if ((mode & 0o022) !== 0 && !isKept) refuse(`other users can write to ${folder || "/"} and put another one there`, "start askance serve with --http-socket in a folder that only its user can write");
      if (!status) return undefined;
      if (status.isSymbolicLink()) {
        const target = fs.readlinkSync(file);
        return [target.startsWith("/") ? "" : folder, target, ...names.slice(i + 1)].join("/");
      }
      folder = file;
    }
    return undefined;
  };
  const find = (file: string): Status | undefined => {
    try {
      return fs.lstatSync(file);
    } catch {
      return undefined; // the request says that nothing is there
    }
  };
  let at: string | undefined = path;
  for (let links = 0; links < 40 && at !== undefined; links++) at = follow(at);
  if (at !== undefined) refuse("it has too many symbolic links", "name the socket itself");
}
