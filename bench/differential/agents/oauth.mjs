// A client on @modelcontextprotocol/sdk with the SDK's own OAuth support. It connects, and
// calls the tools that it is told on standard input, a line each. Where the SDK wants a
// person to authorize, it prints the URL, and the next line is the URL that the browser was
// sent back to; then it does again what it was doing.
//
//   node oauth.mjs URL CLIENT_ID REDIRECT_URI

import { createInterface } from 'node:readline';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js';

const [url, clientId, redirectUrl] = process.argv.slice(2);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const line = async () => (await lines.next()).value;
let tokens, verifier, authorization;
const authProvider = {
  redirectUrl,
  clientMetadata: { redirect_uris: [redirectUrl], token_endpoint_auth_method: 'none' },
  clientInformation: () => ({ client_id: clientId }),
  tokens: () => tokens,
  saveTokens: (t) => { tokens = t; },
  // A browser would be opened at the URL.
  redirectToAuthorization: (at) => { authorization = at; },
  saveCodeVerifier: (v) => { verifier = v; },
  codeVerifier: () => verifier,
  state: () => 'the state',
};
let transport, client;
const connect = async () => {
  client = new Client({ name: 'client', version: '1' });
  transport = new StreamableHTTPClientTransport(new URL(url), { authProvider });
  await client.connect(transport);
};
const authorized = async (what) => {
  try {
    return await what();
  } catch (e) {
    if (!(e instanceof UnauthorizedError)) throw e;
  }
  console.log(String(authorization));
  const back = new URL(await line());
  await transport.finishAuth(back.searchParams.get('code'));
  return what();
};
await authorized(connect);
console.log('connected');
for (let name = await line(); name; name = await line()) {
  try {
    const got = await authorized(() => client.callTool({ name, arguments: { title: 'budget' } }));
    console.log(got.content[0].text);
  } catch (e) {
    console.error(e);
    console.log('failed');
  }
}
await client.close().catch(() => {});
process.exit(0);
