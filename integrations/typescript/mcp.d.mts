import type { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import type { Tools } from './powerbox.mjs';
export declare function guardServer(server: McpServer, held: Tools, agent: string | ((extra: any) => string)): McpServer;
