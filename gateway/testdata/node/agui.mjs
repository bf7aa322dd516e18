// Drives the published AG-UI client for the Go tests: a line of JSON in, a line
// of JSON out. The first argument is the alias of the version.
//
//   {"do":"new","agent":"a","url":…,"headers":…,"thread":…,"messages":[…]}
//   {"do":"run","agent":"a","say":"text","tools":[…],"resume":[…],"forget":true,"abortAt":"TEXT_MESSAGE_CONTENT"}
//
// results add messages as they are, say adds a message of the person, forget
// drops the interrupts that the client holds, url and state are set before the
// run.
import { createInterface } from 'node:readline';

const { HttpAgent } = await import(process.argv[2]);
const warnings = [];
for (const level of ['warn', 'error']) {
  console[level] = (...args) => warnings.push(`${level}: ${args.map(String).join(' ').slice(0, 300)}`);
}

// Lines from Go, in order.
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const next = async () => {
  const { value, done } = await lines.next();
  return done ? null : JSON.parse(value);
};
const tell = (what) => process.stdout.write(JSON.stringify(what) + '\n');

const agents = new Map();

function make({ agent, url, headers, thread, messages }) {
  agents.set(agent, new HttpAgent({ url, headers, threadId: thread, initialMessages: messages ?? [] }));
  return {};
}

// run does one run and says what the client ended with.
async function run(command) {
  const agent = agents.get(command.agent);
  if (command.forget) agent.pendingInterrupts = [];
  if (command.url) agent.url = command.url;
  if (command.state) agent.state = command.state;
  for (const m of command.results ?? []) agent.addMessage(m);
  if (command.say !== undefined) {
    agent.addMessage({ id: `${agent.threadId}-u${agent.messages.length}`, role: 'user', content: command.say });
  }
  const seen = { types: [], runErrors: [], custom: [], calls: [], outcome: null };
  const failed = [];
  const subscriber = {
    onEvent: async ({ event }) => {
      seen.types.push(event.type);
      if (event.type === command.abortAt) agent.abortRun();
    },
    onRunErrorEvent: ({ event }) => { seen.runErrors.push({ code: event.code, message: event.message }); },
    onRunFinishedEvent: ({ event }) => { seen.outcome = event.outcome ?? null; },
    onCustomEvent: ({ event }) => { seen.custom.push({ name: event.name, value: event.value }); },
    onToolCallEndEvent: ({ toolCallName, toolCallArgs }) => { seen.calls.push({ name: toolCallName, args: toolCallArgs }); },
    onRunFailed: ({ error }) => { failed.push(error.message); },
  };
  const parameters = { tools: command.tools ?? [], context: command.context ?? [], forwardedProps: command.forwardedProps };
  if (command.resume) parameters.resume = command.resume;
  if (command.runId) parameters.runId = command.runId;
  let rejected = null;
  let result = null;
  try {
    result = await agent.runAgent(parameters, subscriber);
  } catch (error) {
    rejected = { message: error.message, status: error.status ?? 0 };
  }
  const said = warnings.splice(0).filter((w) => !w.startsWith('error: Agent execution failed'));
  return {
    ...seen, rejected, failed, warnings: said, messages: agent.messages, interrupts: agent.pendingInterrupts,
    state: agent.state, running: agent.isRunning, newMessages: result?.newMessages?.length ?? 0,
  };
}

const doing = { new: make, run };
for (let command = await next(); command; command = await next()) {
  try {
    tell(await doing[command.do](command));
  } catch (error) {
    tell({ broken: error.stack });
  }
}
