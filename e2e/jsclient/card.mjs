// What an author does with the SDK's card signatures.
//
//   node card.mjs verify CARD-URL JWKS-URL    exits 0 when the SDK verifies it
//   node card.mjs sign PRIVATE-JWK < card     prints the card with a signature
//   node card.mjs canonical < cards           prints the canonical form of each card of an array, or null where the SDK has none

import { canonicalizeAgentCard, generateAgentCardSignature, verifyAgentCardSignature, AgentCard } from '@a2a-js/sdk';
import { createLocalJWKSet, importJWK } from 'jose';

const [command, first, second] = process.argv.slice(2);

if (command === 'verify') {
  const card = AgentCard.fromJSON(await (await fetch(first)).json());
  const keys = await (await fetch(second)).json();
  console.debug = () => {};
  await verifyAgentCardSignature(async (kid) => createLocalJWKSet(keys)({ kid, alg: 'EdDSA' }))(card);
  console.log('verified');
} else if (command === 'canonical') {
  const chunks = [];
  for await (const chunk of process.stdin) chunks.push(chunk);
  console.log(JSON.stringify(JSON.parse(Buffer.concat(chunks).toString()).map((card) => canonicalizeAgentCard(card))));
} else {
  const chunks = [];
  for await (const chunk of process.stdin) chunks.push(chunk);
  const jwk = JSON.parse(first);
  const key = await importJWK(jwk, 'EdDSA');
  const card = AgentCard.fromJSON(JSON.parse(Buffer.concat(chunks).toString()));
  const signed = await generateAgentCardSignature(key, { alg: 'EdDSA', kid: jwk.kid, typ: 'JOSE', jku: second })(card);
  console.log(JSON.stringify(AgentCard.toJSON(signed)));
}
