// Says what verify.mjs finds in many bundles that have most of their lines in common. Each line of the input is one of
//
//   {"chunk": base64}     bytes of a bundle; they are numbered from 0
//   {"trust": JSON text}  a trust file; they are numbered from 0, too
//   {"bundles": [[chunk, ...], ...], "trust": number, "seen": [signed checkpoint, ...]}
//
// and each line of the output the answer to one of the last kind.

import { createHash, webcrypto } from 'node:crypto';
import { createInterface } from 'node:readline';

// The same keys, signatures and lines come thousands of times. A digest without a thread of its own, and keys, signatures and
// commitments that are looked at once, keep this fast; what they say is what the platform says.
const text = (bytes) => Buffer.from(bytes).toString('latin1');
const once = (name, known, ask) => {
  if (!known.has(name)) known.set(name, ask());
  return known.get(name);
};
const [imported, signed, verified] = [new Map(), new Map(), new Map()];
const numbers = new Map();
const numberOf = (key) => numbers.get(key) ?? numbers.set(key, numbers.size).get(key);
const subtle = {
  importKey: (form, bytes, ...how) => once(`${form} ${JSON.stringify(how)} ${text(bytes)}`, imported, () => webcrypto.subtle.importKey(form, bytes, ...how)),
  sign: (how, key, bytes) => once(`${JSON.stringify(how)} ${numberOf(key)} ${text(bytes)}`, signed, () => webcrypto.subtle.sign(how, key, bytes)),
  digest: async (_, bytes) => createHash('sha256').update(bytes).digest(),
  verify: (how, key, signature, message) =>
    once(`${JSON.stringify(how)} ${numberOf(key)} ${text(signature)} ${text(message)}`, verified, () => webcrypto.subtle.verify(how, key, signature, message)),
};
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
