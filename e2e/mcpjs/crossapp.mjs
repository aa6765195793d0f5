// A client on MCP's SDK with the SDK's own support for enterprise-managed authorization. It
// changes an ID token for identity assertions at an identity provider, and calls the tools that
// it is told on standard input, a line each.
//
//   node crossapp.mjs URL IDP ID_TOKEN ISSUER

import { createInterface } from 'node:readline';
import { Client, CrossAppAccessProvider, StreamableHTTPClientTransport, discoverAndRequestJwtAuthGrant } from '@modelcontextprotocol/client';

const [url, idpUrl, idToken, expectedIssuer] = process.argv.slice(2);
const authProvider = new CrossAppAccessProvider({
  assertion: async (ctx) => {
    const got = await discoverAndRequestJwtAuthGrant({
      idpUrl, audience: ctx.authorizationServerUrl, resource: ctx.resourceUrl, idToken, clientId: 'workflow-sso', clientSecret: 'secret-at-the-provider', scope: ctx.scope, fetchFn: ctx.fetchFn,
    });
    return got.jwtAuthGrant;
  },
  clientId: 'workflow',
  clientSecret: 'secret-of-the-workflow',
  expectedIssuer,
});
let client;
const connect = async () => {
  const fresh = new Client({ name: 'client', version: '1' });
  await fresh.connect(new StreamableHTTPClientTransport(new URL(url), { authProvider }));
  client = fresh;
};
for await (const name of createInterface({ input: process.stdin })) {
  try {
    if (!client) await connect();
    const got = await client.callTool({ name, arguments: { title: 'budget' } });
    console.log(got.content[0].text);
  } catch (e) {
    console.log(`failed: ${String(e.message ?? e).replaceAll('\n', ' ')}`);
  }
}
await client?.close().catch(() => {});
process.exit(0);
