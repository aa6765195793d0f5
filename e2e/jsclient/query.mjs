// A client as its author would write it on the JavaScript SDK, with an interceptor that asks
// for a capability by a resourceQuery before the first call. It prints the answer to one call
// of the skill retrieve_document, or the error.
//
//   A2A_TOKEN=... A2A_QUERY=... node query.mjs CARD-URL

import { Message, SendMessageRequest, Task } from '@a2a-js/sdk';
import { ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory, createAuthenticatingFetchWithRetry } from '@a2a-js/sdk/client';

const extension = 'https://github.com/powerbox-project/powerbox/extensions/capability-negotiation/v1';
const cardURL = process.argv[2];
const authorization = { Authorization: `Bearer ${process.env.A2A_TOKEN}` };
const fetchImpl = createAuthenticatingFetchWithRetry(fetch, { headers: async () => authorization, shouldRetryWithHeaders: async () => undefined });

async function negotiate() {
  const answer = await fetch(cardURL.replace('/.well-known/agent-card.json', ''), {
    method: 'POST', headers: { 'Content-Type': 'application/json', ...authorization },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'a2a/capabilities/request', params: {
      grants: ['documents:read'], operations: ['retrieve'], purpose: 'Summarize', resourceQuery: JSON.parse(process.env.A2A_QUERY),
    } }),
  });
  const { result, error } = await answer.json();
  if (!result?.capabilities?.length) throw new Error(`no capability: ${JSON.stringify(error)}`);
  return result.capabilities[0];
}

let capability;
const interceptor = {
  before: async (call) => {
    capability ??= await negotiate();
    const request = call.input.value;
    request.metadata = { ...request.metadata, [extension]: { capabilityId: capability.id } };
    for (const part of request.message.parts) {
      part.content.value.arguments = { resourceHandle: capability.resourceHandles[0].handle };
    }
  },
  after: async () => {},
};

try {
  const client = await new ClientFactory({
    transports: [new JsonRpcTransportFactory({ fetchImpl })], clientConfig: { interceptors: [interceptor] }, cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
  }).createFromUrl(new URL('..', cardURL).href);
  const answer = await client.sendMessage(SendMessageRequest.fromJSON({
    message: { messageId: crypto.randomUUID(), role: 'ROLE_USER', parts: [{ data: { skill: 'retrieve_document' } }] },
  }));
  console.log(JSON.stringify('messageId' in answer ? Message.toJSON(answer) : Task.toJSON(answer)));
} catch (e) {
  console.log(JSON.stringify({ error: e.message }));
}
