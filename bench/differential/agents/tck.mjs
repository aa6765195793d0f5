// An agent on @a2a-js/sdk that does what the id of a message asks for, as the scenarios of
// the A2A Technology Compatibility Kit have it. It knows nothing of Powerbox.
//
//   node tck.mjs HTTP-ADDRESS GRPC-ADDRESS

import express from 'express';
import { AgentCard, Role, TaskState } from '@a2a-js/sdk';
import { AgentEvent, DefaultPushNotificationSender, DefaultRequestHandler, InMemoryPushNotificationStore, InMemoryTaskStore } from '@a2a-js/sdk/server';
import { agentCardHandler, jsonRpcHandler, restHandler, UserBuilder } from '@a2a-js/sdk/server/express';
import { grpcService, A2AService } from '@a2a-js/sdk/server/grpc';
import { Server, ServerCredentials } from '@grpc/grpc-js';

const [listen, listenGRPC] = process.argv.slice(2);

const part = (content, filename = '', mediaType = '') => ({ content, metadata: undefined, filename, mediaType });
const text = (value) => part({ $case: 'text', value });
const file = part({ $case: 'raw', value: Buffer.from('file') }, 'output.txt', 'text/plain');
const linked = part({ $case: 'url', value: 'https://example.com/output.txt' }, 'output.txt', 'text/plain');
const data = part({ $case: 'data', value: { key: 'value', count: 42 } });

let made = 0;
const unique = (kind) => `${kind}-${process.pid}-${made++}`;

// script is what happens to a task: states, and artifacts in between.
function script(id) {
  const done = { state: TaskState.TASK_STATE_COMPLETED };
  const working = { state: TaskState.TASK_STATE_WORKING };
  const artifact = unique('artifact');
  const scripts = [
    ['tck-input-required', [{ state: TaskState.TASK_STATE_INPUT_REQUIRED }]],
    ['tck-reject-task', [{ state: TaskState.TASK_STATE_REJECTED, says: 'rejected' }]],
    ['tck-artifact-text', [{ parts: [text('Generated text content')] }, done]],
    ['tck-artifact-file-url', [{ parts: [linked] }, done]],
    ['tck-artifact-file', [{ parts: [file] }, done]],
    ['tck-artifact-data', [{ parts: [data] }, done]],
    ['tck-stream-002', [done]],
    ['tck-stream-artifact-file', [working, { parts: [file] }, done]],
    ['tck-stream-artifact-chunked', [working, { artifact, parts: [text('chunk-1 ')] }, { artifact, parts: [text('chunk-2')], last: true }, done]],
    ['tck-stream-', [working, { parts: [text('Stream hello from TCK')] }, done]],
    ['', [{ ...done, says: 'Hello from TCK' }]],
  ];
  return scripts.find(([prefix]) => id.startsWith(prefix))[1];
}

const message = (ids, words) => ({
  messageId: unique('message'), ...ids, role: Role.ROLE_AGENT, extensions: [], referenceTaskIds: [], metadata: undefined, parts: [text(words)],
});
const status = (ids, { state, says }) => ({ state, timestamp: new Date().toISOString(), message: says ? message(ids, says) : undefined });

const executor = {
  execute: async (x, bus) => {
    const ids = { taskId: x.taskId, contextId: x.contextId };
    const id = x.userMessage.messageId;
    if (id.startsWith('tck-message-response')) {
      bus.publish(AgentEvent.message(message({ taskId: '', contextId: x.contextId }, 'Direct message response')));
      bus.finished();
      return;
    }
    if (!x.task) {
      bus.publish(AgentEvent.task({
        id: x.taskId, contextId: x.contextId, status: status(ids, { state: TaskState.TASK_STATE_SUBMITTED }), artifacts: [], history: [x.userMessage], metadata: {},
      }));
    }
    const seen = new Set();
    for (const step of script(x.task ? '' : id)) {
      if (step.parts) {
        const artifactId = step.artifact ?? unique('artifact');
        bus.publish(AgentEvent.artifactUpdate({
          ...ids, append: seen.has(artifactId), lastChunk: step.last ?? false, metadata: undefined,
          artifact: { artifactId, name: '', description: '', parts: step.parts, metadata: undefined, extensions: [] },
        }));
        seen.add(artifactId);
      } else {
        bus.publish(AgentEvent.statusUpdate({ ...ids, status: status(ids, step), metadata: undefined }));
      }
    }
    bus.finished();
  },
  cancelTask: async (taskId, bus) => {
    const ids = { taskId, contextId: '' };
    bus.publish(AgentEvent.statusUpdate({ ...ids, status: status(ids, { state: TaskState.TASK_STATE_CANCELED }), metadata: undefined }));
    bus.finished();
  },
};

const base = `http://${listen}`;
const at = (url, protocolBinding) => ({ url, protocolBinding, protocolVersion: '1.0', tenant: '' });
const card = AgentCard.fromJSON({
  name: 'TCK agent', description: 'Does what the id of a message asks for', version: '1.0.0',
  supportedInterfaces: [at(`${base}/rpc`, 'JSONRPC'), at(base, 'HTTP+JSON'), at(listenGRPC, 'GRPC')],
  capabilities: { streaming: true, pushNotifications: true, extendedAgentCard: true }, defaultInputModes: ['text/plain'], defaultOutputModes: ['text/plain'],
  skills: [{ id: 'tck', name: 'TCK', description: "What the kit's scenarios ask for", tags: ['test'] }],
});
const pushes = new InMemoryPushNotificationStore();
const handler = new DefaultRequestHandler(card, new InMemoryTaskStore(), executor, undefined, pushes, new DefaultPushNotificationSender(pushes), card);
const options = { requestHandler: handler, userBuilder: UserBuilder.noAuthentication };
const app = express();
app.use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: handler }));
app.use('/rpc', jsonRpcHandler(options));
app.use(restHandler(options));
const [host, port] = listen.split(':');
await new Promise((ready) => { app.listen(Number(port), host, ready); });
const services = new Server();
services.addService(A2AService, grpcService(options));
await new Promise((ready, failed) => {
  services.bindAsync(listenGRPC, ServerCredentials.createInsecure(), (wrong) => (wrong ? failed(wrong) : ready()));
});
process.on('unhandledRejection', () => {}); // a request that breaks one handler ends nothing else
console.error = () => {}; // the SDK tells of every refusal
console.warn = () => {};
process.stdout.write('ready\n');
