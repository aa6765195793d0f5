// Sends a server behind examples/verifycontext the requests that stand on standard input, one JSON object a line.

import http from 'node:http';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const [folder, agent, id] = process.argv.slice(2);
const { fetchKeys, guarded } = await import(pathToFileURL(`${folder}/verify_context.mjs`));
const server = http.createServer(guarded((request, response, body, claims) => {
  response.end(JSON.stringify([claims.holder, body.toString()]));
}, agent, id, await fetchKeys(agent)));
await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
const at = `http://127.0.0.1:${server.address().port}/`;
for await (const line of createInterface({ input: process.stdin })) {
  const { context, body, path } = JSON.parse(line);
  const answer = await fetch(at + path.slice(1), { method: 'POST', body, headers: context ? { 'Powerbox-Context': context } : {} });
  console.log(JSON.stringify({ status: answer.status, body: await answer.text() }));
}
server.close();
server.closeAllConnections();
