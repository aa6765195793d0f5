// Says what verify.mjs finds in many bundles that have most of their lines in common. Each line of the input is one of
//
//   {"chunk": base64}     bytes of a bundle; they are numbered from 0
//   {"trust": JSON text}  a trust file; they are numbered from 0, too
//   {"bundles": [[chunk, ...], ...], "trust": number, "seen": [signed checkpoint, ...]}
//
// and each line of the output the answer to one of the last kind.

import { createHash, webcrypto } from 'node:crypto';
import { createInterface } from 'node:readline';

// The same signatures and lines come thousands of times. A digest without a thread of its own, and signatures that are looked at
// once, keep this fast; what they say is what the platform says.
const known = new Map();
const text = (bytes) => Buffer.from(bytes).toString('latin1');
const subtle = {
  importKey: (...given) => webcrypto.subtle.importKey(...given),
  sign: (...given) => webcrypto.subtle.sign(...given),
  digest: async (_, bytes) => createHash('sha256').update(bytes).digest(),
  verify: async (how, key, signature, message) => {
    const name = `${numberOf(key)} ${text(signature)} ${text(message)}`;
    if (!known.has(name)) known.set(name, webcrypto.subtle.verify(how, key, signature, message));
    return known.get(name);
  },
};
const keys = new Map();
const numberOf = (key) => keys.get(key) ?? keys.set(key, keys.size).get(key);
Object.defineProperty(globalThis, 'crypto', { value: { subtle } });

const { openCheckpoint, parseTrust, verifySeries } = await import('../verify.mjs');

const [chunks, trusts] = [[], []];

async function answer({ bundles, trust, seen }) {
  const pinned = await trusts[trust];
  const kept = [];
  for (const signed of seen ?? []) kept.push(await openCheckpoint(signed, pinned));
  const report = await verifySeries(bundles.map((of) => new Uint8Array(Buffer.concat(of.map((n) => chunks[n])))), pinned, { seen: kept });
  for (const problem of report.problems) problem.message = '';
  return { report };
}

for await (const line of createInterface({ input: process.stdin })) {
  const given = JSON.parse(line);
  if (given.chunk !== undefined) {
    chunks.push(Buffer.from(given.chunk, 'base64'));
  } else if (given.bundles === undefined) {
    const trust = parseTrust(given.trust);
    trust.catch(() => {}); // told with the cases that need it
    trusts.push(trust);
  } else {
    console.log(JSON.stringify(await answer(given).catch((wrong) => ({ error: wrong.message }))));
  }
}
