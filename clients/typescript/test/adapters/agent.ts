// An agent in a separate process, which a test kills. It writes a line to a file for
// each effect, and with die it kills itself between the effect and its report.
import { appendFileSync } from "node:fs";
import { Client } from "@askance/client";
import { frameworks } from "./scenario.js";

const [framework = "", session = "", tool = "", file = "", how = ""] = process.argv.slice(2);
const run = frameworks[framework];
if (!run) throw new Error(`no framework ${framework}`);
const seen = await run({
  client: new Client(), session, calls: [{ id: "c", name: tool, input: { cents: 5 } }],
  run: (_, input) => {
    appendFileSync(file, `${input.cents}\n`);
    if (how === "die") process.kill(process.pid, "SIGKILL");
    return "paid";
  },
});
console.log(JSON.stringify(seen));
process.exit(0);
