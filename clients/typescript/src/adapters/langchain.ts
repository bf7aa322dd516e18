/**
 * Gates the tools of LangChain's agents, as a middleware.
 *
 * Put it last in the list, so no other middleware changes arguments after the decision.
 *
 * @module
 */
import { toJsonSchema } from "@langchain/core/utils/json_schema";
import { interrupt, isGraphInterrupt } from "@langchain/langgraph";
import { type AgentMiddleware, createMiddleware, ToolMessage } from "langchain";

import { type AdapterOptions, AdapterError, deriveReply, inputTextOf, isApproved, messageOf, runGated, settingOf } from "./gated.js";

/** What settings are computed from. */
export interface LangChainContext {
  toolCall: { name: string; args: unknown; id?: string | undefined };
  state: { messages: readonly unknown[] };
  runtime: { configurable?: Record<string, unknown> | undefined; signal?: AbortSignal | undefined };
}

/** Settings of {@link askance}. */
export interface LangChainOptions extends AdapterOptions {
  /** The durable conversation; without it `configurable.thread_id`. */
  session?: string | ((context: LangChainContext) => string | undefined);
  /** The model response; without it the id comes from the messages up to it. */
  reply?: (context: LangChainContext) => string;
  /**
   * Interrupts the graph while people decide, so the process can end. It needs a
   * checkpointer; resume with any value, and the call is looked up again.
   */
  pause?: boolean;
}

/** The middleware. A denied call is a `ToolMessage` with status `error`. */
export function askance(options: LangChainOptions): AgentMiddleware {
  return createMiddleware({
    name: "askance",
    wrapToolCall: async (request, handler) => {
      const { name, args, id } = request.toolCall;
      const context = request as unknown as LangChainContext;
      const session = settingOf(options.session, context) ?? context.runtime.configurable?.["thread_id"];
      if (typeof session !== "string" || session === "") throw new AdapterError(`the call of ${name} has no session: set session, or thread_id in the agent's configuration`);
      const tool = request.tool as { description?: string; schema?: Parameters<typeof toJsonSchema>[0] } | undefined;
      const call = {
        session, reply: options.reply?.(context) ?? await deriveReply(context.state.messages.map(contentOf)), id, name, inputText: inputTextOf(name, args),
        description: tool?.description, inputSchema: tool?.schema ? toJsonSchema(tool.schema) : undefined, signal: context.runtime.signal,
      };
      const message = (text: string, status: "success" | "error") => new ToolMessage({ content: text, tool_call_id: id ?? "", name, status });
      let paused = false;
      try {
        if (options.pause) await pauseWhileAsking(options, call, () => { paused = true; });
        let result: Awaited<ReturnType<typeof handler>> | undefined;
        const ended = await runGated(options, call, async (approved, approvedText) => {
          const toolCall = isApproved(name, args, approvedText) ? request.toolCall : { ...request.toolCall, args: approved };
          result = await handler({ ...request, toolCall });
          if (ToolMessage.isInstance(result) && result.status === "error") throw new Error(result.text);
          return ToolMessage.isInstance(result) ? result.text : "";
        }).catch((error: unknown) => {
          if (result) return { ran: true as const, value: "" }; // the tool's own message says that it failed
          throw error;
        });
        if (ended.ran && result) return result;
        return ended.ran ? message(ended.value, "success") : message(ended.text, ended.state === "success" ? "success" : "error");
      } catch (error) {
        if (paused || isGraphInterrupt(error) || call.signal?.aborted) throw error;
        return message(messageOf(error), "error");
      }
    },
  }) as AgentMiddleware;
}

async function pauseWhileAsking(options: LangChainOptions, call: Parameters<typeof runGated>[1], onPause: () => void): Promise<void> {
  const { session, reply, name, id, inputText, description, inputSchema, signal } = call;
  const tools = [{ name, ...(description ? { description } : {}), ...(inputSchema === undefined ? {} : { input_schema: inputSchema }), ...(options.annotations?.[name] ? { annotations: options.annotations[name] } : {}) }];
  const gate = options.client.gate(session, reply, {
    tools, ...(options.agent ? { agent: options.agent } : {}), ...(options.parent ? { parent: options.parent } : {}), ...(signal ? { signal } : {}),
  });
  for (;;) {
    const [proposed] = await gate.propose([{ name, input: inputText, ...(id === undefined ? {} : { id }) }]);
    if (proposed?.state !== "asking") return;
    onPause();
    interrupt({ askance: { session_id: session, reply_id: reply, tool_call_id: proposed.tool_call_id } });
  }
}

/** The parts of a message that belong to the conversation, without ids and numbers that change. */
function contentOf(message: unknown): unknown {
  const m = message as { type?: unknown; content?: unknown; tool_calls?: unknown; tool_call_id?: unknown };
  return [m.type, m.content, m.tool_calls, m.tool_call_id];
}
