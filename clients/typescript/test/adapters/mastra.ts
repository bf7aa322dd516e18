import { Agent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { MockLanguageModelV3 } from "ai/test";
import { gateTools } from "@askance/client/mastra";
import { names, type Scenario, schema, script, type Seen, settings, usage } from "./scenario.js";

export async function run(s: Scenario): Promise<Seen> {
  const seen: Seen = {};
  const answer = script(s, seen);
  const tools = Object.fromEntries(names.map((name) => [name, createTool({ id: name, description: `Tool ${name}.`, inputSchema: schema, execute: async (input) => s.run(name, input) })]));
  const stream = (prompt: Parameters<typeof answer>[0]) => {
    const { content, finishReason } = answer(prompt);
    const chunks = (content as Array<{ type: string; text?: string }>).flatMap((c): object[] => (c.type === "text" ? [{ type: "text-start", id: "t" }, { type: "text-delta", id: "t", delta: c.text }, { type: "text-end", id: "t" }] : [c]));
    const parts = [{ type: "stream-start", warnings: [] }, ...chunks, { type: "finish", finishReason, usage }];
    return { stream: new ReadableStream({ start: (c) => { parts.forEach((p) => { c.enqueue(p); }); c.close(); } }) };
  };
  const model = new MockLanguageModelV3({
    doGenerate: (o) => Promise.resolve(answer(o.prompt)) as never,
    doStream: (o) => Promise.resolve(stream(o.prompt)) as never,
  });
  const agent = new Agent({
    id: "shop", name: "shop", instructions: "go", model: model as never,
    tools: gateTools(tools, settings(s)),
  });
  await agent.generate("go", { maxSteps: 3, ...(s.signal ? { abortSignal: s.signal } : {}) });
  return seen;
}
