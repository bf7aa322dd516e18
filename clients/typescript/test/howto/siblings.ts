import { Allowed, Client } from "@askance/client";

const gate = new Client().gate("support-7", "turn-2", { agent: "support" });
const proposals = [100, 200].map((cents, i) => ({ id: `call-${i}`, name: "refund", input: { cents } }));

for await (const outcome of gate.calls(proposals)) {
  const id = outcome.call.tool_call_id;
  if (outcome instanceof Allowed) console.log(id, await outcome.run((input: { cents: number }) => `refunded ${input.cents}`));
  else console.log(id, outcome.kind, outcome.text); // the text is for the model
}
