// The driver on the MCP TypeScript SDK: a client and a server in one process.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { guardServer } from '../mcp.mjs';
import { refusalOf } from '../powerbox.mjs';
import { schemas, serve } from './driver.mjs';

const text = (said) => ({ content: [{ type: 'text', text: said }] });

function server(run, agent) {
  const made = guardServer(new McpServer({ name: 'tools', version: '1.0.0' }), run.tools, agent);
  for (const [name, shape] of Object.entries(schemas)) {
    const f = run.function(name);
    if (Object.keys(shape).length === 0) made.registerTool(name, { description: name }, async () => text(await f({})));
    else made.registerTool(name, { description: name, inputSchema: shape }, async (given) => text(await f(given)));
  }
  made.registerTool('watch', { description: 'watch', inputSchema: schemas.read_file }, async (given, extra) => {
    for await (const part of run.watch()(given)) { // a part is a notification of progress
      await extra.sendNotification({ method: 'notifications/progress', params: { progressToken: extra._meta?.progressToken ?? 0, progress: run.parts++, message: part } });
    }
    return text('end');
  });
  return made;
}

serve(async (run) => {
  const { agent, to, calls } = run.request;
  run.parts = 1;
  if (to) {
    try {
      await run.tools.handOver(agent, to); // the protocol has no hand-offs: the other agent has its own session
    } catch (why) {
      run.told(refusalOf(why));
      return;
    }
  }
  const [ours, theirs] = InMemoryTransport.createLinkedPair();
  const client = new Client({ name: 'model', version: '1.0.0' });
  await server(run, to ?? agent).connect(theirs);
  await client.connect(ours);
  await Promise.all(calls.map(async (c) => {
    try {
      const result = await client.callTool({ name: c.tool, arguments: JSON.parse(c.arguments) }, undefined, { onprogress: (p) => run.told(p.message) });
      run.told(result.content.map((part) => part.text).join(''));
    } catch (why) {
      run.told(String(why?.message ?? why));
    }
  }));
  await client.close();
});
