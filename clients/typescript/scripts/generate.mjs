// Writes src/api.ts from the server's OpenAPI document, or with --check compares it.
import { readFileSync, writeFileSync } from "node:fs";

const document = JSON.parse(readFileSync(new URL("../../../gateway/api/openapi.json", import.meta.url), "utf8"));
const target = new URL("../src/api.ts", import.meta.url);

const isName = (name) => /^[A-Za-z_$][\w$]*$/.test(name);
const lines = (text, indent) => (text ? `${indent}/** ${text.replaceAll("*/", "*\\/")} */\n` : "");

function type(schema, indent = "") {
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((v) => JSON.stringify(v)).join(" | ");
  const some = schema.anyOf ?? schema.oneOf;
  if (some) return some.map((s) => type(s, indent)).join(" | ");
  switch (schema.type) {
    case "string":
    case "boolean":
    case "null":
      return schema.type;
    case "integer":
    case "number":
      return "number";
    case "array": {
      const item = type(schema.items ?? {}, indent);
      return /^\w+$/.test(item) ? `${item}[]` : `Array<${item}>`;
    }
    case "object":
      if (schema.properties) return members(schema, indent);
      return `Record<string, ${schema.additionalProperties ? type(schema.additionalProperties, indent) : "unknown"}>`;
    case undefined:
      return "unknown";
  }
  throw new Error(`cannot write the type ${JSON.stringify(schema)}`);
}

function members(schema, indent) {
  const inner = indent + "  ";
  const required = new Set(schema.required ?? []);
  const out = Object.entries(schema.properties).map(([name, s]) =>
    `${lines(s.description, inner)}${inner}${isName(name) ? name : JSON.stringify(name)}${required.has(name) ? "" : "?"}: ${type(s, inner)};\n`);
  return `{\n${out.join("")}${indent}}`;
}

let text = "// Generated from gateway/api/openapi.json by scripts/generate.mjs. Do not edit.\n";
for (const [name, schema] of Object.entries(document.components.schemas)) {
  const t = type(schema);
  text += `\n${lines(schema.description, "")}` + (t.startsWith("{") ? `export interface ${name} ${t}\n` : `export type ${name} = ${t};\n`);
}
text += "\n/** The method and path of each operation, and what it does, for errors. */\nexport const operations = {\n";
for (const [path, item] of Object.entries(document.paths)) {
  for (const [method, o] of Object.entries(item)) {
    text += `  ${o.operationId}: { method: ${JSON.stringify(method.toUpperCase())}, path: ${JSON.stringify(path)}, does: ${JSON.stringify(o.summary[0].toLowerCase() + o.summary.slice(1))} },\n`;
  }
}
text += "} as const;\n";

if (process.argv.includes("--check")) {
  if (readFileSync(target, "utf8") !== text) {
    console.error("clients/typescript/src/api.ts is not what openapi.json says; run: npm run generate");
    process.exit(1);
  }
} else {
  writeFileSync(target, text);
}
