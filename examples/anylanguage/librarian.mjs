// librarian: an A2A agent on Node's own http, which does at the library what it is asked to.
//
// It knows nothing of Powerbox. The library's URL is in the environment, and is the one thing that changes; it passes on the
// trace of a request (W3C Trace Context), as every service that is traced does.
//
//   LIBRARY=http://127.0.0.1:8790/agents/documents node librarian.mjs 9002

import http from 'node:http';
import { randomUUID } from 'node:crypto';

const port = Number(process.argv[2]);
const card = {
  name: 'Librarian', description: 'Fetches from the library', version: '1.0.0',
  supportedInterfaces: [{ url: `http://127.0.0.1:${port}/a2a`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
  defaultInputModes: ['application/json'], defaultOutputModes: ['text/plain'], capabilities: {},
  skills: [{ id: 'fetch', name: 'Fetch', description: 'Fetches something from the library', tags: ['library'] }],
};

const message = (role, part) => ({ message: { messageId: randomUUID(), role, parts: [part] } });

// call calls a skill of another agent and returns its answer, or its error.
function call(url, skill, args, trace) {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params: message('ROLE_USER', { data: { skill, arguments: args } }) });
  return new Promise((resolve, reject) => {
    const headers = { 'Content-Type': 'application/json', 'A2A-Version': '1.0', ...trace };
    const request = http.request(url, { method: 'POST', headers }, async (response) => {
      const answer = JSON.parse(await text(response));
      resolve(answer.error ?? answer.result.message.parts[0]);
    });
    request.on('error', reject);
    request.end(body);
  });
}

async function text(stream) {
  const pieces = [];
  for await (const piece of stream) pieces.push(piece);
  return Buffer.concat(pieces).toString();
}

http.createServer(async (request, response) => {
  let answer = card;
  if (request.method === 'POST') {
    const { id, params } = JSON.parse(await text(request));
    const asked = params.message.parts[0].data.arguments;
    const trace = Object.fromEntries(['traceparent', 'tracestate'].filter((name) => request.headers[name]).map((name) => [name, request.headers[name]]));
    const found = await call(process.env.LIBRARY, asked.do, asked.with, trace);
    answer = { jsonrpc: '2.0', id, result: message('ROLE_AGENT', { text: `The library says: ${JSON.stringify(found)}` }) };
  }
  response.setHeader('Content-Type', 'application/json');
  response.end(JSON.stringify(answer));
}).listen(port, '127.0.0.1');
