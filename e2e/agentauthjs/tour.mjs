// The whole tour of the Agent Auth Protocol at a provider, as a client that follows the
// specification takes it. node tour.mjs BASE full|silent|expire|strict: silent leaves iss
// out of agents' tokens, expire waits for an agent to expire, strict expects that a token
// without iss is refused. It prints a line a step, and ends with status 1 at the first that
// is not as the specification has it.
import assert from "node:assert/strict";
import { agentToken, call, discover, hostToken, newKey, pause, person, until } from "./protocol.mjs";

const [base, how] = process.argv.slice(2);
const step = (name) => console.log(name);
const refused = (answer, status, code) => {
  assert.equal(answer.status, status, JSON.stringify(answer.json));
  assert.equal(answer.json.error, code);
  assert.ok(answer.json.message);
};

const provider = await discover(base);
assert.deepEqual(provider.algorithms, ["Ed25519"]);
assert.ok(provider.approval_methods.includes("device_authorization"));
step("discover");

let host = await newKey();
const agent = { key: await newKey() };
const mine = (audience, more) => agentToken(agent, audience, how === "silent" ? null : host, more);
const execute = async (capability, args, more) =>
  call("POST", provider.default_location, await mine(provider.default_location, more), { capability, arguments: args });
const register = async (capabilities, key = agent.key) =>
  call("POST", provider.endpoints.register, await hostToken(host, provider.issuer, { agent_public_key: key.jwk }), {
    name: "Plain node", host_name: "a test", reason: "to see everything", capabilities,
  });

const anonymous = await call("GET", `${provider.endpoints.capabilities}?limit=1`);
assert.equal(anonymous.json.capabilities.length, 1);
assert.equal(anonymous.json.has_more, true);
const rest = await call("GET", `${provider.endpoints.capabilities}?cursor=${encodeURIComponent(anonymous.json.next_cursor)}`);
assert.ok(rest.json.capabilities.length > 0 && rest.json.capabilities.every((c) => c.grant_status === undefined));
const described = await call("GET", `${provider.endpoints.describe_capability}?name=transfer_money`);
assert.ok(described.json.input);
step("list and describe");

if (how === "expire") {
  await expire();
} else {
  await whole();
}

async function whole() {
  const asked = await register(["check_balance", "slow_job", "ticker", { name: "transfer_money", constraints: { amount: { max: 100 } } }]);
  assert.equal(asked.status, 200, JSON.stringify(asked.json));
  assert.equal(asked.json.status, "pending");
  assert.ok(asked.json.agent_capability_grants.every((g) => g.status === "pending"));
  const { approval } = asked.json;
  assert.equal(approval.method, "device_authorization");
  assert.ok(approval.verification_uri && approval.verification_uri_complete && approval.user_code && approval.expires_in && approval.interval);
  agent.id = asked.json.agent_id;
  refused(await execute("check_balance", { account_id: "acc_123" }), 403, "host_pending");
  step("register");

  await person("approve", approval.user_code, base);
  const active = await until(provider, host, agent.id, (a) => a.status === "active");
  assert.equal(active.user_id, "user:alice");
  const transfer = active.agent_capability_grants.find((g) => g.capability === "transfer_money");
  assert.deepEqual([transfer.status, transfer.constraints, typeof transfer.input], ["active", { amount: { max: 100 } }, "object"]);
  step("approve");

  if (how === "strict") {
    const silent = await agentToken(agent, provider.default_location, null);
    refused(await call("POST", provider.default_location, silent, { capability: "check_balance", arguments: { account_id: "a" } }), 401, "invalid_jwt");
    assert.equal((await execute("check_balance", { account_id: "acc_123" })).status, 200);
    step("strict");
    return;
  }
  const held = await call("GET", provider.endpoints.capabilities, await mine(provider.issuer));
  assert.equal(held.json.capabilities.find((c) => c.name === "check_balance").grant_status, "granted");
  assert.equal(held.json.capabilities.find((c) => c.name === "list_accounts").grant_status, "not_granted");
  const balance = await execute("check_balance", { account_id: "acc_123" });
  assert.deepEqual([balance.status, Object.keys(balance.json), balance.json.data.balance], [200, ["data"], 4280.13]);
  step("execute");

  const token = await mine(provider.default_location);
  const once = { capability: "check_balance", arguments: { account_id: "acc_123" } };
  assert.equal((await call("POST", provider.default_location, token, once)).status, 200);
  refused(await call("POST", provider.default_location, token, once), 401, "invalid_jwt");
  refused(await call("POST", provider.default_location, await mine("https://elsewhere.example"), once), 401, "invalid_jwt");
  refused(await execute("check_balance", { account_id: "acc_123" }, { capabilities: [] }), 403, "capability_not_granted");
  step("one token, one call");

  const payment = { amount: 101, currency: "USD", destination_account: "acc_456" };
  const violated = await execute("transfer_money", payment);
  refused(violated, 403, "constraint_violated");
  assert.deepEqual(violated.json.violations, [{ field: "amount", constraint: { max: 100 }, actual: 101 }]);
  assert.equal((await execute("transfer_money", { ...payment, amount: 100 })).status, 200);
  refused(await execute("transfer_money", { amount: 1 }), 400, "invalid_request");
  refused(await execute("fly", {}), 404, "capability_not_found");
  step("violate a constraint");

  await escalate();
  await comesInPieces();
  await newKeys();
  await end();
}

async function escalate() {
  refused(await execute("list_accounts", {}), 403, "capability_not_granted");
  const more = async (capabilities) =>
    call("POST", provider.endpoints.request_capability, await mine(provider.issuer), { capabilities, reason: "to see all" });
  const asked = await more(["list_accounts"]);
  assert.deepEqual([asked.status, asked.json.status, asked.json.agent_capability_grants], [200, "pending", [{ capability: "list_accounts", status: "pending" }]]);
  assert.equal((await execute("check_balance", { account_id: "acc_123" })).status, 200);
  await person("approve", asked.json.approval.user_code, base);
  await until(provider, host, agent.id, (a) => a.agent_capability_grants.some((g) => g.capability === "list_accounts" && g.status === "active"));
  assert.equal((await execute("list_accounts", {})).status, 200);
  refused(await more(["list_accounts"]), 409, "already_granted");
  refused(await more([{ name: "transfer_money", constraints: { amount: { maximum: 5 } } }]), 400, "unknown_constraint_operator");
  const wider = await more([{ name: "transfer_money", constraints: { amount: { max: 500 } } }]);
  await person("deny", wider.json.approval.user_code, base, "--reason", "too much");
  const after = await until(provider, host, agent.id, (a) => a.agent_capability_grants.some((g) => g.status === "denied"));
  assert.equal(after.status, "active");
  assert.equal(after.agent_capability_grants.find((g) => g.status === "denied").reason, "too much");
  step("escalate");
}

async function comesInPieces() {
  const stream = await execute("ticker", {});
  assert.equal(stream.status, 200);
  assert.deepEqual(stream.events.map((e) => e.name), ["data", "data", "data", "done"]);
  step("stream");

  const begun = await execute("slow_job", {});
  assert.equal(begun.status, 202);
  assert.equal(begun.json.status, "pending");
  assert.equal(new URL(begun.json.status_url).origin, new URL(provider.default_location).origin);
  let now = begun;
  for (let tries = 0; now.json.status === "pending" && tries < 30; tries++) {
    await pause(0.2);
    now = await call("GET", begun.json.status_url, await mine(provider.default_location));
  }
  assert.deepEqual([Object.keys(now.json).sort(), now.json.status, now.json.result.report], [["result", "status"], "completed", "4 pages"]);
  step("async");
}

async function newKeys() {
  const before = agent.key;
  const key = await newKey();
  const rotated = await call("POST", provider.endpoints.rotate_key, await hostToken(host, provider.issuer), { agent_id: agent.id, public_key: key.jwk });
  assert.deepEqual([rotated.status, rotated.json.agent_id], [200, agent.id]);
  refused(await execute("list_accounts", {}), 401, "invalid_jwt");
  agent.key = key;
  assert.equal((await execute("list_accounts", {})).status, 200);
  assert.notEqual(before.id, key.id);
  step("rotate the agent's key");

  const old = host;
  const next = await newKey();
  const now = await call("POST", provider.endpoints.rotate_host_key, await hostToken(old, provider.issuer), { public_key: next.jwk });
  assert.equal(now.status, 200, JSON.stringify(now.json));
  host = next;
  assert.equal((await execute("list_accounts", {})).status, 200);
  const dead = await call("GET", `${provider.endpoints.status}?agent_id=${agent.id}`, await hostToken(old, provider.issuer));
  assert.ok([401, 403, 404].includes(dead.status), JSON.stringify(dead.json));
  step("rotate the host's key");
}

async function end() {
  const revoked = await call("POST", provider.endpoints.revoke, await hostToken(host, provider.issuer), { agent_id: agent.id });
  assert.deepEqual(revoked.json, { agent_id: agent.id, status: "revoked" });
  refused(await execute("check_balance", { account_id: "acc_123" }), 403, "agent_revoked");
  const dead = await call("POST", provider.endpoints.reactivate, await hostToken(host, provider.issuer), { agent_id: agent.id });
  refused(dead, 403, "agent_revoked");
  const second = await register(["check_balance"], await newKey());
  assert.equal(second.json.status, "active"); // the host is alice's now, and this is a default
  step("revoke");
  const all = await call("POST", provider.endpoints.revoke_host, await hostToken(host, provider.issuer), {});
  assert.deepEqual([all.json.status, all.json.agents_revoked], ["revoked", 1]);
  refused(await register(["check_balance"], await newKey()), 403, "host_revoked");
  step("revoke the host");
}

// expire waits until the agent has been silent for too long, and has it come back with the
// defaults alone (section 5.6).
async function expire() {
  const asked = await register(["check_balance", "list_accounts"]);
  agent.id = asked.json.agent_id;
  await person("approve", asked.json.approval.user_code, base);
  await until(provider, host, agent.id, (a) => a.status === "expired");
  refused(await execute("list_accounts", {}), 403, "agent_expired");
  step("expire");
  const back = await call("POST", provider.endpoints.reactivate, await hostToken(host, provider.issuer), { agent_id: agent.id });
  assert.deepEqual([back.status, back.json.status], [200, "active"]);
  assert.ok(back.json.activated_at && back.json.expires_at);
  const held = back.json.agent_capability_grants.filter((g) => g.status === "active").map((g) => g.capability);
  assert.deepEqual(held, ["check_balance"]);
  refused(await execute("list_accounts", {}), 403, "capability_not_granted");
  step("reactivate");
}
