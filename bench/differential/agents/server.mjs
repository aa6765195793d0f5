// Servers as their authors would write them on the stock SDKs for JavaScript. They
// know nothing of Powerbox. For every call that reaches a handler they print one
// line of JSON on standard output: what the handler saw, and the header
// Powerbox-Context that came with it.
//
//   node server.mjs a2a HTTP-ADDRESS GRPC-ADDRESS    @a2a-js/sdk, every binding and both versions
//   node server.mjs mcp HTTP-ADDRESS                 @modelcontextprotocol/sdk, Streamable HTTP

import { writeSync } from 'node:fs';
import express from 'express';

const [role, listen, listenGRPC] = process.argv.slice(2);
const names = ['dry_run', 'collection', 'query', 'limit'];
const skills = ['export', 'search'];

// tell prints what a handler saw. The write returns when the line is out, so that
// it is there before the answer is.
const tell = (seen) => {
  const line = Buffer.from(`${JSON.stringify(seen)}\n`);
  for (let at = 0; at < line.length;) {
    try {
      at += writeSync(1, line, at);
    } catch (e) {
      if (e.code !== 'EAGAIN') throw e;
    }
  }
};

const headersOf = (headers = {}) => {
  const value = headers['powerbox-context'];
  return value === undefined ? [] : [].concat(value).map(String);
};

// read is how a handler takes the arguments that it knows: by their names, which
// also finds what an object inherits.
const read = (args) => Object.fromEntries(names.filter((n) => args?.[n] !== undefined).map((n) => [n, args[n]]));

async function serveA2A() {
  const { AgentCard, Role, TaskState } = await import('@a2a-js/sdk');
  const { DefaultRequestHandler, InMemoryTaskStore, AgentEvent } = await import('@a2a-js/sdk/server');
  const { agentCardHandler, jsonRpcHandler, restHandler, UserBuilder } = await import('@a2a-js/sdk/server/express');
  const { grpcService, A2AService } = await import('@a2a-js/sdk/server/grpc');
  const { legacyGrpcService, LegacyA2AService } = await import('@a2a-js/sdk/compat/v0_3/server/grpc');
  const { Server, ServerCredentials } = await import('@grpc/grpc-js');

  const headers = (context) => headersOf(context?.state?.get?.('headers'));
  const seenIn = (message) => {
    const seen = { calls: [], text: 0, file: 0, data: 0, other: 0 };
    for (const part of message?.parts ?? []) {
      switch (part.content?.$case) {
        case 'text': seen.text++; break;
        case 'raw': case 'url': seen.file++; break;
        case 'data': {
          const data = part.content.value;
          if (typeof data?.skill === 'string') seen.calls.push({ skill: data.skill, arguments: data.arguments ?? {}, read: read(data.arguments) });
          else seen.data++;
          break;
        }
        default: seen.other++;
      }
    }
    return seen;
  };
  const named = new WeakMap(); // ids by the context of a call
  const executor = {
    execute: async (x, bus) => {
      const message = x.userMessage;
      tell({
        agent: 'js', method: 'message', contexts: headers(x.context), message: message.messageId, ...named.get(x.context),
        tenant: x.context?.tenant || x.request?.tenant || '', stored: x.task?.id ?? '', ...seenIn(message),
      });
      if (message.messageId.startsWith('own') && !x.task) { // the calls that set the harness up keep a task
        bus.publish(AgentEvent.task({
          id: x.taskId, contextId: x.contextId, status: { state: TaskState.TASK_STATE_INPUT_REQUIRED, timestamp: new Date().toISOString(), message: undefined },
          artifacts: [], history: [], metadata: {},
        }));
      } else {
        bus.publish(AgentEvent.message({
          messageId: 'answer', contextId: x.contextId, taskId: '', role: Role.ROLE_AGENT, extensions: [], referenceTaskIds: [], metadata: undefined,
          parts: [{ content: { $case: 'text', value: 'done' }, metadata: undefined, filename: '', mediaType: '' }],
        }));
      }
      bus.finished();
    },
    cancelTask: async () => {},
  };
  const at = (url, protocolBinding, protocolVersion) => ({ url, protocolBinding, protocolVersion, tenant: '' });
  const base = `http://${listen}`;
  const card = AgentCard.fromJSON({
    name: 'Exports', description: 'Exports collections', version: '1.0.0',
    supportedInterfaces: ['1.0', '0.3'].flatMap((v) => [at(`${base}/rpc`, 'JSONRPC', v), at(base, 'HTTP+JSON', v), at(listenGRPC, 'GRPC', v)]),
    capabilities: { streaming: true }, defaultInputModes: ['text/plain'], defaultOutputModes: ['text/plain'],
    skills: skills.map((id) => ({ id, name: id, description: id, tags: ['test'] })),
  });
  const handler = new DefaultRequestHandler(card, new InMemoryTaskStore(), executor);
  // The SDK gives every message the ids of a task and of a context. What the caller
  // named is in what the request handler gets.
  for (const method of ['sendMessage', 'sendMessageStream']) {
    const stock = handler[method].bind(handler);
    handler[method] = (params, context) => {
      named.set(context, { task: params.message?.taskId ?? '', context: params.message?.contextId ?? '' });
      return stock(params, context);
    };
  }
  for (const method of ['getTask', 'cancelTask', 'listTasks']) {
    const stock = handler[method].bind(handler);
    handler[method] = (params, context) => {
      tell({
        agent: 'js', method, contexts: headers(context), task: params.id ?? '', context: params.contextId ?? '', tenant: context?.tenant || params.tenant || '',
      });
      return stock(params, context);
    };
  }
  const options = { requestHandler: handler, userBuilder: UserBuilder.noAuthentication, legacyCompat: { enabled: true } };
  const app = express();
  app.use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: handler }));
  app.use('/rpc', jsonRpcHandler(options));
  app.use(restHandler(options));
  const [host, port] = listen.split(':');
  await new Promise((ready) => { app.listen(Number(port), host, ready); });
  const services = new Server();
  services.addService(A2AService, grpcService(options));
  services.addService(LegacyA2AService, legacyGrpcService(options));
  await new Promise((ready, failed) => {
    services.bindAsync(listenGRPC, ServerCredentials.createInsecure(), (wrong) => (wrong ? failed(wrong) : ready()));
  });
}

async function serveMCP() {
  const { Server } = await import('@modelcontextprotocol/sdk/server/index.js');
  const { StreamableHTTPServerTransport } = await import('@modelcontextprotocol/sdk/server/streamableHttp.js');
  const { CallToolRequestSchema, ListToolsRequestSchema, ReadResourceRequestSchema, GetPromptRequestSchema } = await import('@modelcontextprotocol/sdk/types.js');
  const build = () => {
    const server = new Server({ name: 'exports', version: '1.0.0' }, { capabilities: { tools: {}, resources: {}, prompts: {} } });
    const common = (method, extra) => ({ agent: 'mcpjs', method, contexts: headersOf(extra.requestInfo?.headers) });
    server.setRequestHandler(ListToolsRequestSchema, async () => ({ tools: skills.map((name) => ({ name, description: name, inputSchema: { type: 'object' } })) }));
    server.setRequestHandler(CallToolRequestSchema, async ({ params }, extra) => {
      tell({ ...common('tools/call', extra), calls: [{ skill: params.name, arguments: params.arguments ?? {}, read: read(params.arguments) }] });
      return { content: [{ type: 'text', text: 'done' }] };
    });
    server.setRequestHandler(ReadResourceRequestSchema, async ({ params }, extra) => {
      tell({ ...common('resources/read', extra), calls: [{ skill: 'resources/read', arguments: { uri: params.uri }, read: {} }] });
      return { contents: [{ uri: params.uri, text: 'done' }] };
    });
    server.setRequestHandler(GetPromptRequestSchema, async ({ params }, extra) => {
      tell({ ...common('prompts/get', extra), calls: [{ skill: 'prompts/get', arguments: { name: params.name, ...(params.arguments && { arguments: params.arguments }) }, read: {} }] });
      return { messages: [] };
    });
    return server;
  };
  const app = express();
  app.use(express.json({ limit: '4mb' }));
  app.all('/mcp', async (req, res) => {
    const server = build();
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined, enableJsonResponse: true });
    res.on('close', () => { transport.close(); server.close(); });
    await server.connect(transport);
    await transport.handleRequest(req, res, req.body);
  });
  const [host, port] = listen.split(':');
  await new Promise((ready) => { app.listen(Number(port), host, ready); });
}

// A request that breaks one handler ends nothing else.
process.on('unhandledRejection', (e) => console.error('unhandled', e));
process.on('uncaughtException', (e) => console.error('uncaught', e));
console.error = () => {};
console.warn = () => {};
await (role === 'mcp' ? serveMCP() : serveA2A());
tell({ ready: true });
