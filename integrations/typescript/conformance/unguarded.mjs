// What an adapter cannot guard is an error when the program starts. Prints ok.
import assert from 'node:assert/strict';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { Agent, webSearchTool } from '@openai/agents';
import { tool } from 'ai';
import { z } from 'zod';
import { guardServer } from '../mcp.mjs';
import { guardAgent } from '../openai.mjs';
import { Gate, Tools } from '../powerbox.mjs';
import { guardTools } from '../vercel.mjs';

const held = new Tools(new Gate({ url: 'http://127.0.0.1:9', token: 't' }), { target: 'tools' });
assert.throws(() => guardTools({ elsewhere: tool({ inputSchema: z.object({}) }) }, held, 'a'), /cannot be guarded/);
assert.throws(() => guardAgent(new Agent({ name: 'a', tools: [webSearchTool()] }), held), /cannot be guarded/);
assert.throws(() => guardAgent(new Agent({ name: 'a', handoffs: [new Agent({ name: 'b' })] }), held), /want handoff/);
const late = new McpServer({ name: 's', version: '1' });
late.registerTool('x', {}, async () => ({ content: [] }));
assert.throws(() => guardServer(late, held, 'a'), /before they are registered/);
const server = guardServer(new McpServer({ name: 's', version: '1' }), held, 'a');
assert.throws(() => server.experimental.tasks.registerToolTask('x', {}, {}), /cannot be guarded/);
let ran = false;
const x = server.registerTool('x', {}, async () => ({ content: [] }));
x.update({ callback: async () => { ran = true; return { content: [] }; } });
const said = await (x.handler ?? x.callback)({});
assert.ok(said.isError && !ran, 'a callback that replaces another is guarded');
console.log('ok');
