// A client on @modelcontextprotocol/sdk that sends its user to URLs. It calls a tool, and
// where the SDK says that the user has to go to a URL first (UrlElicitationRequiredError),
// it prints the URL, waits for a line on standard input, and calls the tool again.
//
//   node elicit.mjs URL TOOL ARGUMENTS HEADERS

import { createInterface } from 'node:readline/promises';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { UrlElicitationRequiredError } from '@modelcontextprotocol/sdk/types.js';

const [url, name, args, headers] = process.argv.slice(2);
const client = new Client({ name: 'client', version: '1' }, { capabilities: { elicitation: { url: {} } } });
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: JSON.parse(headers) } }));
const lines = createInterface({ input: process.stdin });
const call = async () => client.callTool({ name, arguments: JSON.parse(args) });
try {
  await call();
} catch (e) {
  if (!(e instanceof UrlElicitationRequiredError)) throw e;
  for (const one of e.elicitations) console.log(JSON.stringify(one));
  await new Promise((resume) => lines.once('line', resume));
}
console.log((await call()).content[0].text);
lines.close();
await client.close();
