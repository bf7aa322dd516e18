import { readFileSync } from "node:fs";

/** Reads a file of the vectors that all clients share. */
export function readVectors<T>(name: string): T {
  return JSON.parse(readFileSync(new URL(`../../vectors/${name}.json`, import.meta.url), "utf8")) as T;
}
