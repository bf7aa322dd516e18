import { Agent, type Model, type ModelRequest, type ModelResponse, Runner, Usage } from "@openai/agents";
import { gatedTool } from "@askance/client/openai-agents";
import { type Input, names, type Scenario, type Seen, settings } from "./scenario.js";

export async function run(s: Scenario): Promise<Seen> {
  const seen: Seen = {};
  let turns = 0;
  const model: Model = {
    getResponse: (request: ModelRequest): Promise<ModelResponse> => {
      for (const item of typeof request.input === "string" ? [] : request.input) {
        if (item.type !== "function_call_result") continue;
        seen[item.callId] = typeof item.output === "string" ? item.output : (item.output as { text?: string }).text ?? JSON.stringify(item.output);
      }
      const first = turns++ === 0;
      return Promise.resolve({
        usage: new Usage(), responseId: first ? "response-1" : "response-2",
        output: first
          ? s.calls.map((c) => ({ type: "function_call" as const, callId: c.id, name: c.name, status: "completed" as const, arguments: JSON.stringify(c.input) }))
          : [{ type: "message" as const, role: "assistant" as const, status: "completed" as const, content: [{ type: "output_text" as const, text: "done" }] }],
      });
    },
    getStreamedResponse: () => { throw new Error("not scripted"); },
  };
  const tool = gatedTool(settings(s));
  const tools = names.map((name) => tool({
    name, description: `Tool ${name}.`, strict: false,
    parameters: { type: "object", properties: { cents: { type: "integer" }, note: { type: "string" } }, required: ["cents"], additionalProperties: true },
    execute: async (input) => s.run(name, input as Input),
  }));
  await new Runner({ tracingDisabled: true }).run(new Agent({ name: "shop", instructions: "go", tools, model }), "go", s.signal ? { signal: s.signal } : {});
  return seen;
}
