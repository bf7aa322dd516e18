// A published TypeScript client that does what lines on stdin say and answers
// each with a line. The first line says how to connect:
//   {"era":"modern"|"legacy","url":…,"token":…} or {"era":…,"command":[…],"env":{…}},
//   "capabilities":{…}: capabilities of the client; elicitation requests are accepted.
// Then {"do":"list"}, {"do":"call","name":…,"arguments":{…}}, {"do":"elicited"}.
import readline from 'node:readline'

const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const say = (value) => process.stdout.write(JSON.stringify(value) + '\n')

const how = JSON.parse((await lines.next()).value)
const modern = how.era === 'modern'
const { Client, StreamableHTTPClientTransport, StdioClientTransport, elicit } = modern
  ? {
      ...(await import('@modelcontextprotocol/client')),
      ...(await import('@modelcontextprotocol/client/stdio')),
      elicit: 'elicitation/create',
    }
  : {
      ...(await import('@modelcontextprotocol/sdk/client/index.js')),
      ...(await import('@modelcontextprotocol/sdk/client/streamableHttp.js')),
      ...(await import('@modelcontextprotocol/sdk/client/stdio.js')),
      elicit: (await import('@modelcontextprotocol/sdk/types.js')).ElicitRequestSchema,
    }

const elicited = []
let changes = 0
const options = { capabilities: how.capabilities ?? {} }
if (modern) options.versionNegotiation = { mode: { pin: '2026-07-28' } }
options.listChanged = { tools: { autoRefresh: false, onChanged: () => changes++ } }
const client = new Client({ name: 'judge', version: '1' }, options)
if (options.capabilities.elicitation) {
  client.setRequestHandler(elicit, (request) => {
    elicited.push(request.params)
    return { action: 'accept', content: how.content }
  })
}
try {
  await client.connect(
    how.url
      ? new StreamableHTTPClientTransport(new URL(how.url), {
          requestInit: { headers: { Authorization: `Bearer ${how.token}` } },
        })
      : new StdioClientTransport({ command: how.command[0], args: how.command.slice(1), env: { ...process.env, ...how.env }, stderr: 'inherit' }),
  )
  say({ connected: client.getServerVersion()?.name ?? '' })
  for await (const line of lines) {
    const what = JSON.parse(line)
    const answer = { id: what.id }
    const act = async () => {
      try {
        if (what.do === 'list') answer.result = await client.listTools()
        if (what.do === 'elicited') answer.result = { elicited, changes }
        if (what.do === 'call') {
          const params = { name: what.name, arguments: what.arguments }
          const more = { timeout: 120_000, ...(what.progress && { onprogress: () => (answer.progress = (answer.progress ?? 0) + 1) }) }
          answer.result = modern ? await client.callTool(params, more) : await client.callTool(params, undefined, more)
        }
      } catch (e) {
        answer.error = { code: e.code, message: String(e.message) }
      }
      say(answer)
    }
    void act()
  }
  await client.close()
} catch (e) {
  say({ broken: String(e?.stack ?? e) })
}
