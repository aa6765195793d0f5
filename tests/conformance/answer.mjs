// Has the verifier in JavaScript answer the vectors of the evidence format, as any
// implementation can be asked (docs/assurance/vectors.md):
//
//   powerbox conformance run testdata/vectors --against "node tests/conformance/answer.mjs"

import { createInterface } from 'node:readline';
import { canonical, openCheckpoint, parseRecorders, parseTrust, readRecord, treeRoot, verifyRecord, verifySeries } from '../../evidence/verify.mjs';

const utf8 = (text) => new TextEncoder().encode(text);
const hex = (bytes) => Buffer.from(bytes).toString('hex');
const digest = async (bytes) => new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));

const place = (p) => `${p.kind}@${p.bundle ? `${p.bundle}:` : ''}${p.line ?? 0}`;

async function report(q, trust, bundles) {
  const seen = [];
  for (const signed of q.seen ?? []) seen.push(await openCheckpoint(signed, trust));
  const recorders = [];
  for (const list of q.recorders ?? []) recorders.push(await parseRecorders(list));
  return verifySeries(bundles.map(utf8), trust, { seen, recorders });
}

const answers = {
  async 'evidence/canonical'(q) {
    let output;
    try {
      output = canonical(utf8(q.input));
    } catch {
      return { expect: 'refused' };
    }
    return { expect: 'ok', output, sha256: hex(await digest(utf8(output))) };
  },
  async 'evidence/records'(q) {
    const hash = hex(await digest(utf8(q.prev_record_hash + q.body)));
    const record = await readRecord(utf8(q.stored)).catch(() => undefined);
    return record ? { record_hash: hash, leaf: hex(record.bare), leaf_hash: hex(record.leaf) } : { record_hash: hash };
  },
  async 'evidence/tree'(q) {
    const hashes = await Promise.all(q.leaves.map((leaf) => digest(Buffer.from(`00${leaf}`, 'hex'))));
    const roots = [];
    for (let n = 0; n <= hashes.length; n++) roots.push(Buffer.from(await treeRoot(hashes.slice(0, n)), 'base64').toString('hex'));
    return { roots };
  },
  async 'evidence/proofs'(q) {
    const trust = await parseTrust(JSON.stringify(q.trust));
    return verifyRecord(q.record, q.proof, trust).then(() => ({ expect: 'ok' }), () => ({ expect: 'refused' }));
  },
  async 'evidence/bundles'(q) {
    const r = await report(q, await parseTrust(JSON.stringify(q.trust)), [q.bundle]);
    return { verdict: r.verdict, problems: r.problems.map(place), bodies: r.bodies };
  },
  async 'evidence/audits'(q) {
    const r = await report(q, await parseTrust(JSON.stringify(q.trusts[q.trust])), [q.bundle]);
    return { verdict: r.verdict, problems: r.problems.map(({ kind, line, record_id }) => ({ kind, line: line ?? 0, ...(record_id && { record_id }) })) };
  },
  async 'evidence/periods'(q) {
    const r = await report(q, await parseTrust(JSON.stringify(q.trust)), q.bundles);
    return { verdict: r.verdict, problems: r.problems.map(place), from: r.from, chains_before: r.chains_before };
  },
};
answers['evidence/retention'] = answers['evidence/bundles'];
answers['evidence/bodies'] = answers['evidence/bundles'];

for await (const line of createInterface({ input: process.stdin })) {
  const { id, kind, question } = JSON.parse(line);
  const answer = answers[kind];
  const said = answer ? await answer(question).then((a) => ({ answer: a }), (wrong) => ({ error: wrong.message })) : { unsupported: true };
  console.log(JSON.stringify({ id, ...said }));
}
