import { fakeModel } from "@langchain/core/testing";
import { MemorySaver } from "@langchain/langgraph";
import { AIMessage, createAgent, HumanMessage, tool, ToolMessage } from "langchain";
import { askance, type LangChainOptions } from "@askance/client/langchain";
import { names, type Scenario, schema, type Seen } from "./scenario.js";

/** An agent whose model is scripted; with pause it has a checkpointer. */
export function scripted(s: Scenario, options: Partial<LangChainOptions> = {}) {
  const model = fakeModel().respondWithTools(s.calls.map((c) => ({ id: c.id, name: c.name, args: { ...c.input } }))).respond(new AIMessage("done"));
  const tools = names.map((name) => tool(async (input) => s.run(name, input), { name, description: `Tool ${name}.`, schema }));
  const middleware = [askance({ client: s.client, ...(s.annotations ? { annotations: s.annotations } : {}), ...options })];
  return createAgent({ model, tools, middleware, ...(options.pause ? { checkpointer: new MemorySaver() } : {}) });
}

export async function run(s: Scenario): Promise<Seen> {
  const end = await scripted(s).invoke({ messages: [new HumanMessage("go")] }, { configurable: { thread_id: s.session }, ...(s.signal ? { signal: s.signal } : {}) });
  return Object.fromEntries(end.messages.filter((m) => ToolMessage.isInstance(m)).map((m) => [m.tool_call_id, m.text]));
}
