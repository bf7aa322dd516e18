import { Client } from "@askance/client";

const client = new Client(); // ASKANCE_URL and ASKANCE_TOKEN
const refund = client.tool({
  name: "refund",
  description: "Pays an order back",
  run: ({ order, cents }: { order: string; cents: number }) => `refunded ${cents} cents of ${order}`,
});

const call = { session: "support-7", reply: "turn-1", id: "call-1" }; // the ids of the conversation and of the model
const result = await refund({ order: "A-1", cents: 500 }, call);
console.log(result.state, result.text);
