/**
 * Client of askance: gate the tool calls of agents, run workers, respond to approval requests.
 * @module
 */
export type * as api from "./api.js";
export type { Call, Denial, ParentKey, Problem, ToolAnnotations, ToolDefinition } from "./api.js";
export { Client, type CallName, type CallsEvent, type GatedTool, type Response, type SessionEvent, type ToolContext, type ToolResult } from "./client.js";
export { AskanceError, Conflict, Forbidden, NotFound, Unavailable, Unfinished } from "./errors.js";
export { Allowed, Gate, type Answered, type Denied, type GateOptions, type Outcome, type Output, type Proposal, type Result, type RunContext } from "./gate.js";
export type { Clock, ClientOptions } from "./http.js";
export { checkStart, checkTask, deriveCallID, digestOf, followKeys, idempotencyKey, readKeys, type CallKey, type Checked, type Checks, type KeySet, type KnownKeys, type PublicKey, type Verdict } from "./proof.js";
export { Worker, type Task, type WorkerOptions, type WorkerTool } from "./worker.js";
