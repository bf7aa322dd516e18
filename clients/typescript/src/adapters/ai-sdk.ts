/**
 * Gates the tools of the Vercel AI SDK.
 *
 * The adapter wraps `execute`, so only what askance allows runs, and only with the
 * approved arguments. No response from a browser decides anything.
 *
 * @module
 */
import { asSchema, type Tool, type ToolExecutionOptions, type ToolSet } from "ai";

import { canonicalize } from "../json.js";
import { type AdapterOptions, AdapterError, deriveReply, inputTextOf, isApproved, NotRun, runGated, settingOf } from "./gated.js";

/** Settings of {@link gateTools}. */
export interface AISDKOptions extends AdapterOptions {
  /** The durable conversation. */
  session: string | ((options: ToolExecutionOptions<unknown>) => string);
  /** The model response; without it the id comes from the messages before it. */
  reply?: (options: ToolExecutionOptions<unknown>) => string;
  /** Tools without `execute`, which a provider or a frontend runs and askance does not see. */
  ungated?: readonly string[];
}

/** Returns the same tools, each behind the gate. A denied call is a failed one for the model. */
export function gateTools<T extends ToolSet>(tools: T, options: AISDKOptions): T {
  const gated = Object.entries(tools).map(([name, tool]) => [name, options.ungated?.includes(name) ? tool : gateTool(name, tool as Tool, options)]);
  return Object.fromEntries(gated) as T;
}

function gateTool(name: string, tool: Tool, options: AISDKOptions): Tool {
  const execute = tool.execute as ((input: unknown, context: ToolExecutionOptions<unknown>) => unknown) | undefined;
  if (!execute) throw new AdapterError(`the tool ${name} has no execute, so askance cannot gate it; name it in ungated if it may run all the same`);
  const schema = asSchema(tool.inputSchema);
  return {
    ...tool,
    execute: async (input: unknown, context: ToolExecutionOptions<unknown>) => {
      const inputText = inputTextOf(name, input);
      const ended = await runGated(options, {
        session: settingOf(options.session, context) ?? "",
        reply: options.reply?.(context) ?? await deriveReply(context.messages),
        id: context.toolCallId, name, inputText, inputSchema: await schema.jsonSchema, signal: context.abortSignal,
        description: typeof tool.description === "string" ? tool.description : undefined,
      }, async (approved, approvedText) => {
        if (isApproved(name, input, approvedText)) return last(execute(input, context));
        const checked = await schema.validate?.(approved) ?? { success: true as const, value: approved };
        if (!checked.success) throw checked.error;
        const text = inputTextOf(name, checked.value);
        if (canonicalize(text) !== canonicalize(approvedText)) throw new AdapterError(`the edited arguments of ${name} cannot run: its schema changes them to ${text}`);
        return last(execute(checked.value, context));
      });
      if (ended.ran) return ended.value;
      if (ended.state === "success") return ended.text;
      throw new NotRun(ended.text);
    },
  } as Tool;
}

/** The final output of a tool that can send preliminary ones. */
async function last(output: unknown): Promise<unknown> {
  const value = await output;
  if (typeof value !== "object" || value === null || !(Symbol.asyncIterator in value)) return value;
  let final: unknown;
  for await (const part of value as AsyncIterable<unknown>) final = part;
  return final;
}
