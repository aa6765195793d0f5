// An A2A client as its author would write it on the JavaScript SDK. It knows
// nothing of Powerbox: it is given the URL of an agent's card and what to do,
// and prints one line of JSON for every answer and every event.
//
//   node client.mjs CARD-URL COMMAND [ARGUMENT...]
//   node client.mjs CARD-URL < commands     one JSON array per line
//   node client.mjs < clients               one client per line, each made anew
//
// Commands: card | send TEXT | stream TEXT | skill NAME JSON | get TASK |
// wait TASK | cancel TASK | list | subscribe TASK. wait asks for the task until it is
// over, and prints it then. The argument "$task" is the task that was
// answered last. A2A_TOKEN in the environment is sent as a bearer token,
// A2A_METADATA is JSON that goes into the metadata of requests, A2A_HEADERS JSON
// of service parameters. A2A_LEGACY turns on what the SDK has for agents that
// speak version 0.3 of the protocol. The binding is the one that the card
// prefers.
//
// A line with a client is {"url": card, "env": {those variables}, "commands": [[command, argument...]]}.
// After its answers comes {"ended": true}, or {"failed": text} where the SDK makes no client of the card.

import { createInterface } from 'node:readline';
import { AgentCard, ListTasksResponse, Message, SendMessageRequest, StreamResponse, Task } from '@a2a-js/sdk';
import {
  ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory, RestTransportFactory, createAuthenticatingFetchWithRetry,
} from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';

// open makes a client for an agent, and returns what runs a command with it.
async function open(cardURL, env) {
  const token = env.A2A_TOKEN;
  const fetchImpl = !token ? fetch : createAuthenticatingFetchWithRetry(fetch, {
    headers: async () => ({ Authorization: `Bearer ${token}` }),
    shouldRetryWithHeaders: async () => undefined,
  });
  const legacyCompat = { enabled: Boolean(env.A2A_LEGACY) };
  // What goes with every call on every binding. gRPC knows no fetch, and so takes
  // the token here.
  const parameters = (grpc) => ({
    ...JSON.parse(env.A2A_HEADERS ?? '{}'), ...(grpc && token ? { authorization: `Bearer ${token}` } : {}),
  });
  const interceptor = {
    before: async (call) => {
      const grpc = client.transport.protocolName === 'GRPC';
      call.options = { ...call.options, serviceParameters: { ...call.options?.serviceParameters, ...parameters(grpc) } };
    },
    after: async () => {},
  };
  const client = await new ClientFactory({
    transports: [
      new JsonRpcTransportFactory({ fetchImpl, legacyCompat }), new RestTransportFactory({ fetchImpl, legacyCompat }),
      new GrpcTransportFactory({ legacyCompat }),
    ],
    clientConfig: { interceptors: [interceptor] },
    cardResolver: new DefaultAgentCardResolver({ fetchImpl, legacyCompat }),
  }).createFromUrl(new URL('..', cardURL).href);

  let lastTask = '';

  function print(value) {
    lastTask = value.task?.id ?? (value.status ? value.id : undefined) ?? lastTask;
    console.log(JSON.stringify(value));
  }

  const message = (part) => SendMessageRequest.fromJSON({
    message: { messageId: crypto.randomUUID(), role: 'ROLE_USER', parts: [part] },
    metadata: env.A2A_METADATA && JSON.parse(env.A2A_METADATA),
  });

  const answer = (result) => print('messageId' in result ? Message.toJSON(result) : Task.toJSON(result));

  const commands = {
    card: async () => print(AgentCard.toJSON(await client.getAgentCard())),
    send: async (text) => answer(await client.sendMessage(message({ text }))),
    stream: async (text) => {
      for await (const event of client.sendMessageStream(message({ text }))) print(StreamResponse.toJSON(event));
    },
    skill: async (skill, json) => answer(await client.sendMessage(message({ data: { skill, arguments: JSON.parse(json) } }))),
    get: async (id) => print(Task.toJSON(await client.getTask({ tenant: '', id }))),
    wait: async (id) => {
      for (;;) {
        const task = Task.toJSON(await client.getTask({ tenant: '', id }));
        if (!/AUTH_REQUIRED|WORKING/.test(task.status.state)) return print(task);
        await new Promise((done) => setTimeout(done, 50));
      }
    },
    cancel: async (id) => print(Task.toJSON(await client.cancelTask({ tenant: '', id }))),
    list: async () => print(ListTasksResponse.toJSON(await client.listTasks({ tenant: '', contextId: '', status: 0, pageToken: '' }))),
    subscribe: async (id) => {
      for await (const event of client.resubscribeTask({ tenant: '', id })) print(StreamResponse.toJSON(event));
    },
  };

  return async ([command, ...args]) => {
    if (!Object.hasOwn(commands, command)) throw new Error(`no command ${command}; there are ${Object.keys(commands)}`);
    try {
      await commands[command](...args.map((a) => (a === '$task' ? lastTask : a)));
    } catch (e) {
      // The code is the JSON-RPC one; data has google.rpc.ErrorInfo. The status is
      // that of HTTP, where headers of the answer are kept, or of gRPC, whose
      // details come as bytes.
      const refused = e.headers?.['powerbox-outcome'] === 'denied';
      console.log(JSON.stringify({ error: {
        name: e.name, code: e.envelopeCode, status: e.statusCode ?? e.status, message: e.message, data: e.data,
        metadata: e.metadata, details: e.statusDetailsBin?.toString('latin1'),
        decision: refused ? e.headers['powerbox-decision'] : undefined,
      } }));
    }
  };
}

const lines = () => createInterface({ input: process.stdin });
const [cardURL, ...argument] = process.argv.slice(2);
if (!cardURL) {
  for await (const line of lines()) {
    const { url, env, commands } = JSON.parse(line);
    try {
      const run = await open(url, env);
      for (const command of commands) await run(command);
      console.log('{"ended": true}');
    } catch (e) {
      console.log(JSON.stringify({ failed: e.stack }));
    }
  }
} else {
  const run = await open(cardURL, process.env);
  if (argument.length > 0) await run(argument);
  else for await (const line of lines()) await run(JSON.parse(line));
}
