// An MCP server with resources, on the SDK as its authors write one:
//
//   node resources.mjs HOST:PORT
//
// A read of a resource answers with the URI that the SDK has made of that of the request.
import express from 'express';
import { McpServer, ResourceTemplate } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';

const build = () => {
  const server = new McpServer({ name: 'files', version: '1.0.0' });
  const read = async (uri) => ({ contents: [{ uri: uri.href, text: `text of ${uri.href}` }] });
  server.registerResource('salaries', 'file:///salaries', {}, read);
  server.registerResource('public', new ResourceTemplate('file:///public/{name}', { list: undefined }), {}, read);
  return server;
};
const app = express();
app.use(express.json());
app.get('/ready', (_, res) => { res.send('ready'); });
app.all('/mcp', async (req, res) => {
  const server = build();
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined, enableJsonResponse: true });
  res.on('close', () => { transport.close(); server.close(); });
  await server.connect(transport);
  await transport.handleRequest(req, res, req.body);
});
const [host, port] = process.argv[2].split(':');
app.listen(Number(port), host);
