// What the adapters share: the run of a framework's tool goes through the gate.
import type { ParentKey, ToolDefinition } from "../api.js";
import type { Client } from "../client.js";
import { messageOf } from "../errors.js";
import { writeArguments } from "../json.js";
import { sha256 } from "../proof.js";

/** Settings of every adapter. */
export interface AdapterOptions {
  client: Client;
  /** The agent's name, for rules and people. */
  agent?: string;
  /** The call within which these are made, such as the one that started a sub-agent. */
  parent?: ParentKey;
  /** Hints about tools by name, for rules. An idempotent tool can run again after a crash. */
  annotations?: Readonly<Record<string, NonNullable<ToolDefinition["annotations"]>>>;
}

/** One call of a framework's tool. */
export interface FrameworkCall {
  session: string;
  reply: string;
  id?: string | undefined;
  name: string;
  description?: string | undefined;
  inputSchema?: unknown;
  /** The arguments as JSON text. */
  inputText: string;
  signal?: AbortSignal | undefined;
}

/** How a call ended: with the tool's return value, or with a text for the model. */
export type Ended<T> = { ran: true; value: T } | { ran: false; state: "success" | "error" | "interrupted" | "denied"; text: string };

/** What a framework gets instead of a result if a call did not run. */
export class NotRun extends Error {
  override readonly name = "NotRun";
}

/** The error that an adapter throws when it is set up in a way that cannot work. */
export class AdapterError extends Error {
  override readonly name = "AdapterError";
}

/**
 * Runs a tool if askance allows, with the approved arguments. An exception of the tool is
 * reported and thrown again. If anything else keeps the tool from running, there is a text.
 */
export async function runGated<T>(options: AdapterOptions, call: FrameworkCall, run: (input: Record<string, unknown>, inputText: string) => Promise<T> | T): Promise<Ended<T>> {
  let failure: { error: unknown } | undefined;
  let value: { of: T } | undefined;
  const annotations = options.annotations?.[call.name];
  const gated = options.client.tool<Record<string, unknown>>({
    name: call.name,
    ...(call.description ? { description: call.description } : {}),
    ...(call.inputSchema === undefined ? {} : { inputSchema: call.inputSchema }),
    ...(annotations ? { annotations } : {}),
    run: async (input, context) => {
      try {
        value = { of: await run(input, context.inputText) };
        return value.of;
      } catch (error) {
        failure = { error };
        throw error;
      }
    },
  });
  const result = await gated(call.inputText, {
    session: call.session, reply: call.reply,
    ...(call.id === undefined ? {} : { id: call.id }), ...(call.signal ? { signal: call.signal } : {}),
    ...(options.agent ? { agent: options.agent } : {}), ...(options.parent ? { parent: options.parent } : {}),
  });
  if (failure) throw failure.error;
  if (value) return { ran: true, value: value.of }; // even if its result cannot be reported: the effect happened
  return { ran: false, state: result.state, text: result.text };
}

/** Reads a setting that is a value or a function of the call. */
export function settingOf<C>(setting: string | ((context: C) => string | undefined) | undefined, context: C): string | undefined {
  return typeof setting === "function" ? setting(context) : setting;
}

const volatileNames = new Set(["id", "createdAt", "timestamp", "providerOptions", "providerMetadata", "additional_kwargs", "response_metadata", "usage_metadata"]);

/** The id of a model response, from the messages before it: the same when an agent runs the step again. */
export async function deriveReply(messages: unknown): Promise<string> {
  const text = JSON.stringify(messages, (name, value: unknown) => (volatileNames.has(name) ? undefined : value)) ?? "";
  return `reply_${(await sha256(text)).slice(0, 32)}`;
}

/** Writes arguments as JSON text. A value without a JSON form is refused: people would see other arguments than the tool. */
export function inputTextOf(tool: string, input: unknown): string {
  try {
    return writeArguments(input);
  } catch (cause) {
    throw new AdapterError(`the arguments of ${tool} are no JSON: ${messageOf(cause)}`, { cause });
  }
}

/** Whether the framework's arguments are still those that were approved: others can have changed them meanwhile. */
export function isApproved(tool: string, input: unknown, approvedText: string): boolean {
  return inputTextOf(tool, input) === approvedText;
}

export { messageOf };
