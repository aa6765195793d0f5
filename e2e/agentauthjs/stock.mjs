// What npm serves of the protocol's own TypeScript client: @better-auth/agent-auth/client, a
// plug-in of better-auth's client that knows the paths and methods and leaves keys and tokens
// to whoever uses it. node stock.mjs BASE.
import assert from "node:assert/strict";
import { agentAuthClient } from "@better-auth/agent-auth/client";
import { createAuthClient } from "better-auth/client";
import { agentToken, hostToken, newKey, person } from "./protocol.mjs";

const base = process.argv[2];
const client = createAuthClient({ baseURL: base, basePath: "/", plugins: [agentAuthClient()] });
const host = await newKey();
const agent = { key: await newKey() };
const as = async (token) => ({ headers: { authorization: `Bearer ${await token}` } });
const good = ({ data, error }) => {
  assert.equal(error, null, JSON.stringify(error));
  return data;
};

const list = good(await client.capability.list());
assert.ok(list.capabilities.some((c) => c.name === "check_balance"));
assert.ok(good(await client.capability.describe({ query: { name: "check_balance" } })).input);
const asked = good(await client.agent.register(
  { name: "Stock", capabilities: ["check_balance"], reason: "to see it work" }, await as(hostToken(host, base, { agent_public_key: agent.key.jwk }))));
assert.equal(asked.status, "pending");
agent.id = asked.agent_id;
await person("approve", asked.approval.user_code, base);
const status = good(await client.agent.status({ query: { agent_id: agent.id }, fetchOptions: await as(hostToken(host, base)) }));
assert.equal(status.status, "active");
const location = `${base}/capability/execute`;
const done = good(await client.capability.execute(
  { capability: "check_balance", arguments: { account_id: "acc_123" } }, await as(agentToken(agent, location))));
assert.equal(done.data.balance, 4280.13);
const refused = await client.capability.execute({ capability: "list_accounts" }, await as(agentToken(agent, location)));
assert.deepEqual([refused.error.status, refused.error.error], [403, "capability_not_granted"]);
const more = good(await client.agent.requestCapability({ capabilities: ["list_accounts"] }, await as(agentToken(agent, base))));
assert.equal(more.status, "pending");
const revoked = good(await client.agent.revoke({ agent_id: agent.id }, await as(hostToken(host, base))));
assert.equal(revoked.status, "revoked");
console.log("stock");
