import { Client } from "@askance/client";

const client = new Client();
for (const call of await client.requests({ tool: "refund" })) {
  const { cents } = JSON.parse(call.input) as { cents: number };
  if (cents < 150) await client.respond(call, { kind: "approve" });
  else await client.respond(call, { kind: "reject", feedback: "Ask for the receipt." });
  console.log(call.tool_call_id, call.input);
}
