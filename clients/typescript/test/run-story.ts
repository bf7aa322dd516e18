import { story, type Setting } from "./story.js";

// Deno and Bun also have this part of Node.js.
console.log(JSON.stringify(await story(JSON.parse(process.argv[2] ?? "{}") as Setting)));
