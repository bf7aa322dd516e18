// A published TypeScript server over stdio with one tool: node server.mjs modern|legacy.
const modern = process.argv[2] === 'modern'
const tool = {
  name: 'ask',
  description: 'Says who it is and what it got.',
  inputSchema: { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] },
}
const list = () => ({ tools: [tool] })
const call = (request) => ({ content: [{ type: 'text', text: `${process.argv[2]} ran ${JSON.stringify(request.params.arguments)}` }] })
const about = [{ name: 'judge', version: '1' }, { capabilities: { tools: {} } }]

if (modern) {
  const { Server } = await import('@modelcontextprotocol/server')
  const { serveStdio } = await import('@modelcontextprotocol/server/stdio')
  await serveStdio(() => {
    const server = new Server(...about)
    server.setRequestHandler('tools/list', list)
    server.setRequestHandler('tools/call', call)
    return server
  })
} else {
  const { Server } = await import('@modelcontextprotocol/sdk/server/index.js')
  const { StdioServerTransport } = await import('@modelcontextprotocol/sdk/server/stdio.js')
  const { CallToolRequestSchema, ListToolsRequestSchema } = await import('@modelcontextprotocol/sdk/types.js')
  const server = new Server(...about)
  server.setRequestHandler(ListToolsRequestSchema, list)
  server.setRequestHandler(CallToolRequestSchema, call)
  await server.connect(new StdioServerTransport())
}
