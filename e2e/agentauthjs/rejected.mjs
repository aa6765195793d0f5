// How the protocol's own client, @better-auth/agent-auth, learns that a person has refused a
// host that nobody knew, and asks again. It polls the status and takes no notice of errors, as
// the protocol's SDK does. node rejected.mjs BASE LIMIT, where LIMIT is unknown_hosts.
import assert from "node:assert/strict";
import { agentAuthClient } from "@better-auth/agent-auth/client";
import { createAuthClient } from "better-auth/client";
import { agentToken, events, hostToken, newKey, pause, person } from "./protocol.mjs";

const [base, limit] = process.argv.slice(2);
const client = createAuthClient({ baseURL: base, basePath: "/", plugins: [agentAuthClient()] });
const as = async (token) => ({ headers: { authorization: `Bearer ${await token}` } });
const step = (name) => console.log(name);

// asks registers a new agent of a host.
async function asks(host) {
  const key = await newKey();
  const { data, error } = await client.agent.register(
    { name: "Stock", capabilities: ["check_balance"], reason: "to see it work" }, await as(hostToken(host, base, { agent_public_key: key.jwk })));
  return { key, id: data?.agent_id, approval: data?.approval, status: data?.status, error };
}

// waits polls until a person has answered, for as long as a few polls take.
async function waits(host, agent) {
  for (let tries = 0; tries < 8; tries++) {
    const { data } = await client.agent.status({ query: { agent_id: agent.id }, fetchOptions: await as(hostToken(host, base)) });
    if (data && data.status !== "pending") return data.status;
    await pause(1);
  }
  return "no answer";
}

const followed = async (agent) => (await events((await fetch(new URL(agent.approval.notification_url, base))).body)).find((e) => e.name === "status").data.status;

const host = await newKey();
const first = await asks(host);
assert.equal(first.status, "pending", JSON.stringify(first.error));
await person("deny", first.approval.user_code, base);
assert.equal(await waits(host, first), "rejected");
assert.equal(await followed(first), "rejected");
step("rejected");

const second = await asks(host);
assert.equal(second.status, "pending", JSON.stringify(second.error));
assert.notEqual(second.id, first.id);
await person("approve", second.approval.user_code, base);
assert.equal(await waits(host, second), "active");
assert.equal(await followed(second), "active");
const location = `${base}/capability/execute`;
const done = await client.capability.execute({ capability: "check_balance", arguments: { account_id: "acc_123" } }, await as(agentToken(second, location)));
assert.equal(done.error, null, JSON.stringify(done.error));
const old = await client.capability.execute({ capability: "check_balance", arguments: { account_id: "acc_123" } }, await as(agentToken(first, location)));
assert.deepEqual([old.error.status, old.error.error], [403, "agent_rejected"]);
assert.equal(await waits(host, first), "rejected");
step("approved after a rejection");

// A second denial at a host that was approved ends that agent and nothing else.
const third = await asks(host);
if (third.status === "pending") {
  await person("deny", third.approval.user_code, base);
  assert.equal(await waits(host, third), "rejected");
  assert.equal(await waits(host, second), "active");
}
step("one agent is rejected");

// Another host asks until the limit of its address: two of it are used up above.
const other = await newKey();
for (let n = 2; n < Number(limit); n++) {
  const again = await asks(other);
  assert.equal(again.status, "pending", JSON.stringify(again.error));
  await person("deny", again.approval.user_code, base);
  assert.equal(await waits(other, again), "rejected");
}
const beyond = await asks(other);
assert.deepEqual([beyond.error?.status, beyond.error?.error], [429, "rate_limited"]);
step("limited");
