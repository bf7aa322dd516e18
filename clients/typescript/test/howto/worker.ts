import { readFileSync } from "node:fs";
import { Client } from "@askance/client";

const ship = (input: { order: string }) => `shipped ${input.order}`;
const engineKey = readFileSync(process.env["ENGINE_KEY"] ?? "engine.pub", "utf8");
const worker = new Client().worker([{ name: "ship", run: ship }], { engineKeys: [engineKey], slots: 4 });

const stop = new AbortController();
process.once("SIGTERM", () => stop.abort());
await worker.run({ signal: stop.signal });
