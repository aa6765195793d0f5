// Refuses calls which came past the Powerbox gateway, for Node's http. It needs no package.

import { createHash, createPublicKey, verify as verifySignature } from 'node:crypto';

// fetchKeys returns the keys of the agent's gateway, by kid; agent is the agent's public URL there.
export async function fetchKeys(agent) {
  const { keys } = await (await fetch(`${agent}/.well-known/jwks.json`)).json();
  return new Map(keys.filter((k) => k.crv === 'Ed25519').map((k) => [k.kid, createPublicKey({ key: k, format: 'jwk' })]));
}

// verify returns what the gateway says of a request, or throws: for this agent, at this time, for these bytes, and nothing else.
export function verify(compact, body, agent, id, keys) {
  const parts = compact.split('.');
  const [header, claims] = parts.slice(0, 2).map((part) => JSON.parse(Buffer.from(part, 'base64url')));
  if (parts.length !== 3 || header.typ !== 'powerbox-context+jwt' || !['EdDSA', 'Ed25519'].includes(header.alg)) throw new Error('this is no context');
  const key = keys.get(header.kid);
  if (!key || !verifySignature(null, Buffer.from(`${parts[0]}.${parts[1]}`), key, Buffer.from(parts[2], 'base64url'))) throw new Error('the signature is not the gateway’s');
  const now = Date.now() / 1000;
  const digest = createHash('sha256').update(body).digest('base64url');
  if (claims.iss !== agent || claims.aud !== id || claims.req.d !== digest || !(claims.iat - 30 <= now && now < claims.exp)) {
    throw new Error('the context is for another agent, time or body');
  }
  return claims;
}

const cards = ['/.well-known/agent-card.json', '/.well-known/agent.json'];

// guarded wraps a listener of http.createServer, which gets the body and what the gateway says. Cards stay open: the gateway itself reads them.
export function guarded(listener, agent, id, keys) {
  return async (request, response) => {
    if (request.method === 'GET' && cards.includes(request.url)) return listener(request, response, Buffer.alloc(0), null);
    const pieces = [];
    for await (const piece of request) pieces.push(piece);
    const body = Buffer.concat(pieces);
    let claims;
    try {
      claims = verify(request.headers['powerbox-context'] ?? '', body, agent, id, keys);
    } catch (wrong) {
      return response.writeHead(401, { 'Content-Type': 'text/plain' }).end(`come through the gateway: ${wrong.message}`);
    }
    return listener(request, response, body, claims);
  };
}
