import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "askance-package-"));
after(() => rmSync(folder, { recursive: true, force: true }));

function run(cwd: string, command: string, ...args: string[]): string {
  const p = spawnSync(command, args, { cwd, encoding: "utf8", timeout: 300_000 });
  assert.equal(p.status, 0, `${command} ${args.join(" ")}: ${p.stdout}${p.stderr} ${p.error?.message ?? ""}`);
  return p.stdout;
}

const program = `import { Allowed, Client, Unavailable } from "@askance/client";

const gate = new Client({ url: "http://127.0.0.1:9", token: "", retryFor: 0 }).gate("s", "r");
const outcome = await gate.call("look", {}).catch((err: unknown) => err instanceof Unavailable ? err : undefined);
if (outcome instanceof Allowed) await outcome.run((input: { at: string }) => input.at);
console.log(outcome instanceof Unavailable ? outcome.code : "");
`;

test("the packed client works in an empty folder, and its types need no other package", () => {
  run(root, "npm", "pack", "--ignore-scripts", "--silent", "--pack-destination", folder);
  const installed = join(folder, "node_modules", "@askance", "client");
  mkdirSync(installed, { recursive: true });
  run(installed, "tar", "-xzf", join(folder, "askance-client-0.1.0.tgz"), "--strip-components", "1");
  writeFileSync(join(folder, "package.json"), '{"type":"module"}');
  writeFileSync(join(folder, "program.ts"), program);
  const tsc = [join(root, "node_modules", "typescript", "bin", "tsc"), "--ignoreConfig", "--strict", "--target", "ES2022"];
  // A browser's project has the types of the DOM; a project for Node.js has its types.
  run(folder, process.execPath, ...tsc, "--noEmit", "--module", "preserve", "--lib", "ES2022,DOM", "--types", "", "program.ts");
  mkdirSync(join(folder, "node_modules", "@types"));
  for (const name of ["@types/node", "undici-types"]) symlinkSync(join(root, "node_modules", name), join(folder, "node_modules", name));
  run(folder, process.execPath, ...tsc, "--module", "NodeNext", "--lib", "ES2022", "--types", "node", "program.ts");
  rmSync(join(folder, "node_modules", "@types"), { recursive: true });
  assert.equal(run(folder, process.execPath, "program.js"), "unavailable\n");
});
