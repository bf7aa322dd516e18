import { generateText, isStepCount, tool, type ToolSet } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { gateTools } from "@askance/client/ai-sdk";
import { type Input, names, type Scenario, schema, script, type Seen, settings } from "./scenario.js";

export async function run(s: Scenario): Promise<Seen> {
  const seen: Seen = {};
  const answer = script(s, seen);
  const tools: ToolSet = Object.fromEntries(names.map((name) => [name, tool({ description: `Tool ${name}.`, inputSchema: schema, execute: (input: Input) => s.run(name, input) })]));
  await generateText({
    model: new MockLanguageModelV4({ doGenerate: (o) => Promise.resolve(answer(o.prompt)) }),
    tools: gateTools(tools, settings(s)),
    stopWhen: isStepCount(3), prompt: "go", ...(s.signal ? { abortSignal: s.signal } : {}),
  });
  return seen;
}
