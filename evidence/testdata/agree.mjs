// Says what verify.mjs finds. Each line of the input is one case:
//
//   {"trust": JSON text, "seen": [signed checkpoint], "recorders": [JSON text], "bundle": base64, "more": [base64], "lacks": [algorithm],
//    "witnesses": [key], "quorum": number}
//   {"trust": JSON text, "record": text, "proof": text}
//   {"trust": JSON text, "receipt": text, "record": text}, with a record or without
//   {"canonical": text}
//   {"sealed": text}
//   {"leaves": [hex]}
//   {"algorithm": name, "public": hex, "message": text, "signature": hex}, or "hex" in place of "message"
//
// Each line of the output is its answer.

import { createInterface } from 'node:readline';
import { canonical, checker, openCheckpoint, parseRecorders, parseTrust, pinWitnesses, readRecord, treeRoot, verify, verifyReceipt, verifyRecord, verifySeries } from '../verify.mjs';

// without is a WebCrypto that lacks algorithms.
const without = (names) => ({
  importKey: (form, bytes, algorithm, ...rest) => {
    if (names.includes(algorithm.name)) throw new DOMException('Unrecognized algorithm name', 'NotSupportedError');
    return crypto.subtle.importKey(form, bytes, algorithm, ...rest);
  },
  verify: (...args) => crypto.subtle.verify(...args),
});

const hex = (bytes) => Buffer.from(bytes).toString('hex');

async function answer(asked) {
  if (asked.canonical !== undefined) return { text: canonical(new TextEncoder().encode(asked.canonical)) };
  if (asked.sealed !== undefined) {
    const r = await readRecord(new TextEncoder().encode(asked.sealed));
    return { body: Buffer.from(r.body).toString(), hash: r.real, leaf: hex(r.bare), leaf_hash: hex(r.leaf) };
  }
  if (asked.leaves) {
    const hashes = asked.leaves.map((leaf) => crypto.subtle.digest('SHA-256', Buffer.from(`00${leaf}`, 'hex')));
    return { text: Buffer.from(await treeRoot((await Promise.all(hashes)).map((hash) => new Uint8Array(hash))), 'base64').toString('hex') };
  }
  if (asked.public) {
    const holds = await checker(asked.algorithm ?? 'Ed25519', Buffer.from(asked.public, 'hex'), crypto.subtle);
    const message = asked.hex ? Buffer.from(asked.hex, 'hex') : new TextEncoder().encode(asked.message ?? '');
    return { text: String(await holds(message, Buffer.from(asked.signature ?? '', 'hex'))) };
  }
  const trust = await parseTrust(asked.trust, asked.lacks && { subtle: without(asked.lacks) });
  if (asked.witnesses) await pinWitnesses(trust, asked.witnesses, asked.quorum);
  if (asked.receipt !== undefined) {
    const { verdict, chain_id, record_hash, sequence, cosigned } = await verifyReceipt(asked.receipt, trust, asked.record);
    return { text: `${verdict} ${chain_id} ${record_hash} ${sequence}`, cosigned };
  }
  if (asked.record !== undefined) return { text: await verifyRecord(asked.record, asked.proof, trust) };
  const seen = [];
  for (const signed of asked.seen ?? []) seen.push(await openCheckpoint(signed, trust));
  const recorders = [];
  for (const list of asked.recorders ?? []) recorders.push(await parseRecorders(list));
  const bytes = (text) => Uint8Array.from(Buffer.from(text, 'base64'));
  if (asked.more) return { report: await verifySeries([asked.bundle, ...asked.more].map(bytes), trust, { seen, recorders }) };
  return { report: await verify(bytes(asked.bundle), trust, { seen, recorders }) };
}

for await (const line of createInterface({ input: process.stdin })) {
  const said = await answer(JSON.parse(line)).catch((wrong) => ({ error: wrong.message }));
  console.log(JSON.stringify(said));
}
