/**
 * Gates the tools of Mastra.
 *
 * The adapter wraps `execute` and does not use Mastra's own pause for approvals.
 *
 * @module
 */
import type { Tool, ToolAction, ToolExecutionContext } from "@mastra/core/tools";

import { type AdapterOptions, AdapterError, deriveReply, inputTextOf, isApproved, NotRun, runGated, settingOf } from "./gated.js";

type Context = ToolExecutionContext<unknown, unknown>;
type AnyTool = Tool<any, any, any, any, any> | ToolAction<any, any, any, any, any>;

/** Settings of {@link gateTools}. */
export interface MastraOptions extends AdapterOptions {
  /** The durable conversation; without it the thread of the agent's memory. */
  session?: string | ((context: Context) => string | undefined);
  /** The model response; without it the id comes from the messages before it. */
  reply?: (context: Context) => string;
}

/** Returns the same tools, each behind the gate. A denied call is a failed one for the model. */
export function gateTools<T extends Record<string, AnyTool>>(tools: T, options: MastraOptions): T {
  return Object.fromEntries(Object.entries(tools).map(([name, tool]) => [name, gateTool(name, tool, options)])) as T;
}

function gateTool(name: string, tool: AnyTool, options: MastraOptions): AnyTool {
  const execute = tool.execute as ((input: unknown, context: Context) => unknown) | undefined;
  if (!execute) throw new AdapterError(`the tool ${name} has no execute, so askance cannot gate it`);
  const inputSchema = schemaOf(tool.inputSchema);
  const gated = async (input: unknown, context: Context) => {
    const agent = context.agent;
    const session = settingOf(options.session, context) ?? agent?.threadId;
    if (!session) throw new AdapterError(`the call of ${name} has no session: set session, or give the agent's run a memory with a thread`);
    const inputText = inputTextOf(name, input);
    const ended = await runGated(options, {
      session, reply: options.reply?.(context) ?? await deriveReply(agent?.messages),
      id: agent?.toolCallId, name, inputText, inputSchema, description: tool.description, signal: context.abortSignal,
    }, (approved, approvedText) => execute.call(tool, isApproved(name, input, approvedText) ? input : approved, context));
    if (ended.ran) return ended.value;
    if (ended.state === "success") return ended.text;
    throw new NotRun(ended.text);
  };
  return Object.assign(Object.create(Object.getPrototypeOf(tool) as object) as AnyTool, tool, { execute: gated });
}

/** The JSON Schema of a tool's input, if its library can write one. */
function schemaOf(schema: unknown): unknown {
  const standard = (schema as { "~standard"?: { jsonSchema?: { input(options: { target: string }): unknown } } } | undefined)?.["~standard"];
  return standard?.jsonSchema?.input({ target: "draft-2020-12" });
}
