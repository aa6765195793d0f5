// Verifies a bundle as a page does: without process, as a chosen file and as the body of an answer.
//
//   node page.mjs BUNDLE TRUST

import { readFileSync } from 'node:fs';

const say = console.log.bind(console);
const [bundle, trust] = process.argv.slice(2, 4).map((name) => readFileSync(name));
const sources = [new Blob([bundle]), new Response(bundle).body, new Uint8Array(bundle)];
delete globalThis.process;
delete globalThis.Buffer;

const { parseTrust, verify } = await import('../verify.mjs');
const pinned = await parseTrust(new TextDecoder().decode(trust));
for (const source of sources) {
  const { verdict, records, problems } = await verify(source, pinned);
  say(JSON.stringify([verdict, records, problems.length]));
}
