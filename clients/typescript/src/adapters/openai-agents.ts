/**
 * Gates the function tools of the OpenAI Agents SDK.
 *
 * The adapter wraps the run of the tool. The SDK's own approvals cannot edit arguments.
 *
 * @module
 */
import { type FunctionTool, type RunContext, tool } from "@openai/agents";

import { type AdapterOptions, messageOf, runGated, settingOf } from "./gated.js";

type Context = RunContext<any>;
/** What the SDK reports about a call. */
type ToolCallDetails = NonNullable<Parameters<FunctionTool<any, any, any>["invoke"]>[2]>;

/** Settings of {@link gatedTool}. */
export interface OpenAIAgentsOptions extends AdapterOptions {
  /** The durable conversation. */
  session: string | ((context: Context) => string);
  /** The model response; without it each call is a separate reply, named by the model's id of the call. */
  reply?: (context: Context, details: ToolCallDetails | undefined) => string;
}

/**
 * Returns a function like the SDK's `tool`, whose tools are behind the gate. The model gets
 * the text of a denial as the tool's output, because the SDK has no other form for it.
 */
export function gatedTool(options: OpenAIAgentsOptions): typeof tool {
  const create = (settings: Parameters<typeof tool>[0]) => {
    const outer = tool(settings) as FunctionTool<any, any, any>;
    const inner = tool({ ...settings, errorFunction: null } as typeof settings) as FunctionTool<any, any, any>;
    const invoke: typeof outer.invoke = async (context, inputText, details) => {
      const id = details?.toolCall?.callId;
      try {
        const ended = await runGated(options, {
          session: settingOf(options.session, context) ?? "", reply: options.reply?.(context, details) ?? id ?? "",
          id, name: outer.name, description: outer.description, inputSchema: outer.parameters, inputText, signal: details?.signal,
        }, (_, approvedText) => inner.invoke(context, approvedText, edited(details, approvedText)));
        return ended.ran ? ended.value : ended.text;
      } catch (error) {
        const handle = (settings as { errorFunction?: ((context: Context, error: unknown) => unknown) | null }).errorFunction;
        if (handle === null || details?.signal?.aborted) throw error;
        return handle ? handle(context, error) : `An error occurred while running the tool. Please try again. Error: ${messageOf(error)}`;
      }
    };
    return { ...outer, invoke };
  };
  return create as unknown as typeof tool;
}

function edited(details: ToolCallDetails | undefined, inputText: string): ToolCallDetails | undefined {
  return details?.toolCall ? { ...details, toolCall: { ...details.toolCall, arguments: inputText } } : details;
}
