// The programs of docs/howto/typescript-frameworks.md, between page and end.
import type { LanguageModel } from "ai";
import type { LanguageModelLike } from "@langchain/core/language_models/base";

export async function withAISDK(model: LanguageModel): Promise<string> {
  // page ai-sdk
  const { Client } = await import("@askance/client");
  const { gateTools } = await import("@askance/client/ai-sdk");
  const { generateText, isStepCount, tool } = await import("ai");
  const z = await import("zod");

  const tools = gateTools({
    refund: tool({
      description: "Pay an order back.",
      inputSchema: z.object({ cents: z.number().int() }),
      execute: ({ cents }) => `paid ${cents}`,
    }),
  }, { client: new Client(), session: "order-1042" });
  const { text } = await generateText({ model, tools, stopWhen: isStepCount(5), prompt: "Refund it." });
  // end
  return text;
}

export async function withLangChain(model: LanguageModelLike): Promise<string> {
  // page langchain
  const { Client } = await import("@askance/client");
  const { askance } = await import("@askance/client/langchain");
  const { createAgent, tool } = await import("langchain");
  const z = await import("zod");

  const refund = tool(({ cents }) => `paid ${cents}`, {
    name: "refund", description: "Pay an order back.", schema: z.object({ cents: z.number().int() }),
  });
  const agent = createAgent({ model, tools: [refund], middleware: [askance({ client: new Client() })] });
  const end = await agent.invoke({ messages: "Refund it." }, { configurable: { thread_id: "order-1043" } });
  // end
  return end.messages.at(-2)?.text ?? "";
}
