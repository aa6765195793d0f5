// better-auth's own Agent Auth server, as its documentation sets it up, over SQLite: the
// peer of the Agent Auth rows. node server.mjs HOST:PORT FOLDER [SERVICE]. It prints nothing
// and has one capability, which asks the service at that URL through the adapter that its
// package has for that, and answers itself where there is none.
import { createServer } from "node:http";
import { join } from "node:path";
import { agentAuth } from "@better-auth/agent-auth";
import { createOpenAPIHandler } from "@better-auth/agent-auth/openapi";
import { betterAuth } from "better-auth";
import { getMigrations } from "better-auth/db/migration";
import { toNodeHandler } from "better-auth/node";
import Database from "better-sqlite3";

const [listen, folder, service] = process.argv.slice(2);
const database = new Database(join(folder, "peer.db"));
database.pragma("journal_mode = WAL");
database.pragma("synchronous = FULL"); // as ours
const input = { type: "object", required: ["account_id"], properties: { account_id: { type: "string" } } };
const interfaceOfService = {
  paths: {
    "/do": {
      post: {
        operationId: "check_balance",
        requestBody: { required: true, content: { "application/json": { schema: input } } },
      },
    },
  },
};
const options = {
  database,
  baseURL: `http://${listen}`,
  secret: "a secret of at least thirty-two bytes",
  emailAndPassword: { enabled: true },
  rateLimit: { enabled: false },
  telemetry: { enabled: false },
  logger: { level: "error" },
  plugins: [
    agentAuth({
      providerName: "bank",
      capabilities: [{
        name: "check_balance",
        description: "See the balance of one account",
        input,
      }],
      defaultHostCapabilities: ["check_balance"],
      rateLimit: false,
      maxAgentsPerUser: 0, // no limit, and nothing to count
      onExecute: service
        ? createOpenAPIHandler(interfaceOfService, { baseUrl: service })
        : () => ({ balance: 4280.13, currency: "USD" }),
    }),
  ],
};
const { runMigrations } = await getMigrations(options);
await runMigrations();
const [host, port] = listen.split(":");
createServer(toNodeHandler(betterAuth(options))).listen(Number(port), host);
