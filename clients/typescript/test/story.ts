// The same program in every runtime that the client supports. It uses only standard APIs.
import { Allowed, type Call, Client } from "../dist/index.js";

export interface Setting {
  url: string;
  tokens: Record<string, string>;
  engineKey: string;
  session: string;
  retryFor?: number;
}

/** Uses each part of the client with a real server, and lists what happened. */
export async function story({ url, tokens, engineKey, session, retryFor = 30_000 }: Setting): Promise<string[]> {
  const as = (name: string) => new Client({ url, token: tokens[name] ?? "", retryFor });
  const out: string[] = [];
  const gate = as("bot").gate(session, "r/1");

  const free = await gate.call("look", { at: "sky" }, { id: "free" });
  if (free instanceof Allowed) out.push(await free.run((input: { at: string }) => `saw ${input.at}`));

  const denied = await gate.call("drop", {});
  if (denied.kind === "denied") out.push(`denied: ${denied.text.includes("tables are not dropped here")}`);

  const asked = gate.call("refund", '{"cents": 9007199254740993}', { id: "asked" });
  for await (const e of as("ann").callsStream({ session })) {
    if (e.type === "call" && e.call.state === "asking") {
      await as("ann").respond(e.call, { kind: "approve", input: '{"cents": 1}' });
      break;
    }
  }
  const approved = await asked;
  if (approved instanceof Allowed) out.push(await approved.run((input: { cents: number }) => `refunded ${input.cents}`));

  const stop = new AbortController();
  const worker = as("wendy").worker([{ name: "job", run: (input: { n: number }) => `job ${input.n}` }], { engineKeys: [engineKey] });
  const work = worker.run({ signal: stop.signal });
  const remote = await as("bot").gate(session, "r/2", { tools: [] }).call("job", { n: 7 }, { id: "remote" });
  if (remote.kind === "answered") out.push(remote.text);
  stop.abort();
  await work;

  for await (const { event } of as("bot").events(session)) {
    if (event["type"] === "TOOL_RESULT_END" && event["tool_call_id"] === "asked") break;
  }
  const history: Call = (await as("bot").show({ session_id: session, reply_id: "r/1", tool_call_id: "asked" })).call;
  out.push(`${history.state} ${String(history.result?.output)}`);
  return out;
}

/** The result of story. */
export const told = ["saw sky", "denied: true", "refunded 1", "job 7", "finished refunded 1"];
