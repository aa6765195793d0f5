// The least that a client of the Agent Auth Protocol needs, written from its
// specification, version 1.0-draft, with jose for keys and tokens and nothing else.
import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { promisify } from "node:util";
import { calculateJwkThumbprint, exportJWK, generateKeyPair, SignJWT } from "jose";

const run = promisify(execFile);

// newKey makes an Ed25519 key with its JWK and RFC 7638 thumbprint (section 4.1).
export async function newKey() {
  const { publicKey, privateKey } = await generateKeyPair("EdDSA", { crv: "Ed25519" });
  const { kty, crv, x } = await exportJWK(publicKey);
  const jwk = { kty, crv, x };
  return { privateKey, jwk, id: await calculateJwkThumbprint(jwk, "sha256") };
}

function signed(typ, key, claims) {
  return new SignJWT({ jti: randomUUID(), ...claims })
    .setProtectedHeader({ alg: "EdDSA", typ })
    .setIssuedAt()
    .setExpirationTime("60s")
    .sign(key.privateKey);
}

// hostToken is a token of a host (section 4.2).
export const hostToken = (host, audience, more = {}) =>
  signed("host+jwt", host, { iss: host.id, aud: audience, host_public_key: host.jwk, ...more });

// agentToken is a token of an agent (section 4.3), without iss where the host is left out,
// as the protocol's own client makes it.
export const agentToken = (agent, audience, host, more = {}) =>
  signed("agent+jwt", agent.key, { ...(host && { iss: host.id }), sub: agent.id, aud: audience, ...more });

// call makes one request, and returns status, headers and JSON.
export async function call(method, url, token, body) {
  const response = await fetch(url, {
    method,
    redirect: "error",
    headers: { ...(token && { authorization: `Bearer ${token}` }), ...(body && { "content-type": "application/json" }) },
    body: body && JSON.stringify(body),
  });
  if ((response.headers.get("content-type") ?? "").startsWith("text/event-stream")) {
    return { status: response.status, events: await events(response.body) };
  }
  return { status: response.status, headers: response.headers, json: await response.json() };
}

// events reads a stream to its done event (section 5.11).
export async function events(body) {
  const out = [];
  let text = "";
  for await (const piece of body.pipeThrough(new TextDecoderStream())) {
    text += piece;
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      let name = "data", data = "";
      for (const line of text.slice(0, end).split("\n")) {
        if (line.startsWith("event:")) name = line.slice(6).trim();
        if (line.startsWith("data:")) data += line.slice(5).trim();
      }
      out.push({ name, data: data && JSON.parse(data) });
    }
  }
  return out;
}

// discover reads what a provider says of itself (section 5.1); endpoints become absolute.
export async function discover(base) {
  const { status, json } = await call("GET", `${base}/.well-known/agent-configuration`);
  if (status !== 200 || !json.version.startsWith("1.") || json.issuer !== base) throw new Error(`discovery: ${status} ${JSON.stringify(json)}`);
  for (const [name, path] of Object.entries(json.endpoints)) json.endpoints[name] = new URL(path, `${base}/`).href;
  json.default_location ??= json.endpoints.execute;
  return json;
}

// person answers as alice, through the powerbox command.
export async function person(verb, code, base, ...more) {
  const { stdout } = await run(process.env.POWERBOX, ["approval", verb, code, "--server", base, "--as", "alice", "--output", "json", ...more]);
  return JSON.parse(stdout);
}

export const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

// until polls an agent's status, with a new token each time, until it says so.
export async function until(provider, host, id, holds) {
  for (let tries = 0; tries < 60; tries++) {
    const now = await call("GET", `${provider.endpoints.status}?agent_id=${id}`, await hostToken(host, provider.issuer));
    if (now.status === 200 && holds(now.json)) return now.json;
    await pause(now.status === 429 ? Number(now.headers.get("retry-after") ?? 1) : 0.5);
  }
  throw new Error("it never came to that");
}
