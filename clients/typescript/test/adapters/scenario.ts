// What each framework runs for the tests, with its adapter and a scripted model.
import * as z from "zod";
import type { Client } from "@askance/client";

export interface Input { cents: number; note?: string | undefined }

/** One run of an agent: the model proposes the calls in its first response and then ends. */
export interface Scenario {
  client: Client;
  session: string;
  calls: ReadonlyArray<{ id: string; name: string; input: Input }>;
  /** What each tool does. */
  run: (name: string, input: Input) => unknown;
  annotations?: Readonly<Record<string, { idempotent?: boolean }>>;
  signal?: AbortSignal;
}

/** What the model saw as the output of each call, by its id. */
export type Seen = Record<string, string>;

export const names = ["look", "refund", "deploy", "drop", "pay"] as const;
export const schema = z.object({ cents: z.number().int(), note: z.string().optional() });
export const settings = (s: Scenario) => ({ client: s.client, session: s.session, ...(s.annotations ? { annotations: s.annotations } : {}) });

export const usage = { inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 }, outputTokens: { total: 1, text: 1, reasoning: 0 } };

/** The parts of the AI SDK's scripted model, which Mastra uses too. */
export function script(s: Scenario, seen: Seen) {
  let turns = 0;
  return (prompt: ReadonlyArray<{ role: string; content: unknown }>) => {
    for (const m of prompt) {
      if (m.role !== "tool") continue;
      for (const part of m.content as Array<{ toolCallId: string; output: { value: unknown } }>) {
        seen[part.toolCallId] = typeof part.output.value === "string" ? part.output.value : JSON.stringify(part.output.value);
      }
    }
    const first = turns++ === 0;
    return {
      content: first
        ? s.calls.map((c) => ({ type: "tool-call" as const, toolCallId: c.id, toolName: c.name, input: JSON.stringify(c.input) }))
        : [{ type: "text" as const, text: "done" }],
      finishReason: { unified: first ? "tool-calls" as const : "stop" as const, raw: undefined }, usage, warnings: [],
    };
  };
}

/** The frameworks by name; each is loaded when it first runs. */
export const frameworks: Readonly<Record<string, (s: Scenario) => Promise<Seen>>> = {
  "Vercel AI SDK": async (s) => (await import("./ai-sdk.js")).run(s),
  LangChain: async (s) => (await import("./langchain.js")).run(s),
  "OpenAI Agents": async (s) => (await import("./openai-agents.js")).run(s),
  Mastra: async (s) => (await import("./mastra.js")).run(s),
};
