// Verifies an evidence bundle of Powerbox with nothing but pinned keys: no server, no package, no Go. It is the second
// implementation of what "powerbox evidence verify" does, runs in Node 20 or newer and in a browser, and needs WebCrypto alone.
//
//   node verify.mjs BUNDLE... --trust TRUST [--seen CHECKPOINT]... [--recorders LIST]... [--witness KEY]... [--quorum N] [--output json]
//   node verify.mjs [RECORD] --receipt RECEIPT --trust TRUST [--witness KEY]... [--quorum N] [--output json]
//
// It exits with 0 where all is well, 4 where something is wrong, 5 where this platform lacks an algorithm (which says nothing of
// the bundle), 2 on a wrong use and 1 on any other error. In a page:
//
//   import { parseTrust, verify } from './verify.mjs';
//   const report = await verify(file, await parseTrust(text)); // a File, a Response's body, a Uint8Array
//
// The format is that of evidence/bundle.go, the checks are those of docs/reference/evidence.md, and testdata/vectors/evidence is what both
// implementations agree on. Keys come from the trust file, never from the bundle.

const maxLine = 1 << 20; // bytes of a line with its line feed
const maxRecord = 60 << 10; // bytes of what is hashed of a record
const maxDepth = 64; // arrays and objects inside each other
const maxText = 4096; // bytes of one text of a record
const maxCheckpoint = 512 << 10; // bytes
const bundleForm = 'powerbox-evidence-bundle/v1';
const bodyForm = 'powerbox-evidence-body/v1\n';
const leafForm = 'powerbox-evidence/v1\n';
const recordersForm = 'powerbox-recorders/v1';
const issuerID = 'powerbox'; // agent_id of the chain that the issuer keeps about itself
const proofForm = 'c2sp.org/tlog-proof@v1';
const receiptForm = 'powerbox-receipt/v1';
const maxReceipt = 2048; // bytes
const genesis = '0'.repeat(64);

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const utf8 = (text) => encoder.encode(text);
const size = (text) => (text.length * 3 <= maxText ? text.length : utf8(text).length); // enough to compare with a limit
const quote = JSON.stringify;

// decode refuses bytes that are not UTF-8, and keeps a byte order mark, which no form of ours has.
function decode(bytes) {
  try {
    return decoder.decode(bytes);
  } catch {
    throw new Error('not UTF-8');
  }
}

// --- JSON: I-JSON (RFC 7493) by a reader of its own, since JSON.parse takes the last of two members and rounds numbers ---

// Num is a number as it is written. Its value is exactly that of the text, or it would have been refused.
class Num {
  constructor(text) {
    this.text = text;
    this.value = Number(text);
    checkNumber(text, this.value);
  }
}

// checkNumber refuses what a 64-bit float would change without a word (ATK-39).
function checkNumber(text, value) {
  if (!Number.isFinite(value)) throw new Error(`number ${text} is too large for a 64-bit float; write it as a string`);
  if (Object.is(value, -0)) throw new Error(`number ${text} is minus zero; write 0`);
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) throw new Error(`integer ${text} is beyond 2^53-1; write it as a string`);
  const given = decimal(text);
  const kept = decimal(String(value));
  if (given.digits !== kept.digits || given.exponent !== kept.exponent) throw new Error(`number ${text} has more digits than a 64-bit float keeps`);
}

// decimal splits a number into its significant digits and the power of ten of the last one.
function decimal(text) {
  const [mantissa, power = '0'] = text.toLowerCase().replace('-', text[0] === '-' ? '' : '-').split('e');
  const [whole, fraction = ''] = mantissa.split('.');
  const digits = (whole + fraction).replace(/^0+/, '');
  const trimmed = digits.replace(/0+$/, '');
  if (trimmed === '') return { digits: '', exponent: 0 };
  const limit = 2 ** 31;
  const shift = Math.max(-limit, Math.min(limit, Number(power)));
  return { digits: trimmed, exponent: shift - fraction.length + digits.length - trimmed.length };
}

const lone = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/;
const escapes = { '"': '"', '\\': '\\', '/': '/', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' };

// Reader reads one JSON text: objects become Maps, numbers become Nums.
class Reader {
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  whole() {
    const value = this.value(0);
    this.space();
    if (this.at !== this.text.length) this.fail('one JSON value expected');
    return value;
  }

  fail(what) {
    throw new Error(`${what} at character ${this.at} of the JSON`);
  }

  // match takes what a sticky expression finds here.
  match(expression) {
    expression.lastIndex = this.at;
    const found = expression.exec(this.text);
    if (found) this.at = expression.lastIndex;
    return found?.[0];
  }

  space() {
    this.match(/[ \t\n\r]*/y);
  }

  // next tells whether the next character is this one, and takes it.
  next(character) {
    this.space();
    if (this.text[this.at] !== character) return false;
    this.at++;
    return true;
  }

  value(depth) {
    this.space();
    switch (this.text[this.at]) {
      case '{':
        return this.object(this.deeper(depth));
      case '[':
        return this.array(this.deeper(depth));
      case '"':
        return this.string();
    }
    const word = this.match(/true|false|null/y);
    if (word) return { true: true, false: false, null: null }[word];
    const number = this.match(/-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y);
    if (number === undefined) this.fail('no JSON value');
    return new Num(number);
  }

  deeper(depth) {
    if (depth === maxDepth) this.fail(`nested deeper than ${maxDepth} levels`);
    return depth + 1;
  }

  object(depth) {
    const members = new Map();
    this.at++;
    if (this.next('}')) return members;
    do {
      this.space();
      const name = this.text[this.at] === '"' ? this.string() : this.fail('no name of a member');
      if (members.has(name)) this.fail(`member ${quote(name)} is there twice`);
      if (!this.next(':')) this.fail('no colon');
      members.set(name, this.value(depth));
    } while (this.next(','));
    if (!this.next('}')) this.fail('an object does not end');
    return members;
  }

  array(depth) {
    const values = [];
    this.at++;
    if (this.next(']')) return values;
    do values.push(this.value(depth));
    while (this.next(','));
    if (!this.next(']')) this.fail('an array does not end');
    return values;
  }

  string() {
    let out = '';
    this.at++;
    for (;;) {
      out += this.match(/[^"\\\u0000-\u001f]*/y);
      const end = this.text[this.at++];
      if (end === '"') break;
      if (end !== '\\') this.fail('a text does not end, or has a control character');
      out += this.escape();
    }
    if (lone.test(out)) this.fail('half a surrogate pair');
    return out;
  }

  escape() {
    const kind = this.text[this.at++];
    if (kind !== 'u') return escapes[kind] ?? this.fail('an unknown escape');
    const digits = this.match(/[0-9a-fA-F]{4}/y) ?? this.fail('an escape without four hex digits');
    return String.fromCharCode(parseInt(digits, 16));
  }
}

// write is RFC 8785 for what Reader read: JSON.stringify has its spelling of texts and numbers, sort its order (UTF-16).
function write(value) {
  if (value instanceof Num) return String(value.value);
  if (value instanceof Map) return `{${[...value.keys()].sort().map((name) => `${quote(name)}:${write(value.get(name))}`).join(',')}}`;
  if (Array.isArray(value)) return `[${value.map(write).join(',')}]`;
  return quote(value);
}

// canonical returns the one form of a JSON text (RFC 8785), and refuses every text that two readers could read differently.
export function canonical(bytes, limit = maxRecord) {
  if (bytes.length > limit) throw new Error(`JSON of ${bytes.length} bytes, at most ${limit} are allowed`);
  return write(new Reader(decode(bytes)).whole());
}

// exactly reads a line that must already be in its one form.
function exactly(bytes) {
  const text = decode(bytes);
  const value = new Reader(text).whole();
  if (write(value) !== text) throw new Error('not in its one canonical form (RFC 8785)');
  return value;
}

// --- Shapes: which members there are, and of what kind. A name with ? may be missing, and is not empty where it is there ---

const isText = (value) => typeof value === 'string';
const short = (value) => isText(value) && size(value) <= maxText;
const list = (value) => Array.isArray(value) && value.length > 0 && value.every(short);
const object = (value) => value instanceof Map;
const integer = (value) => value instanceof Num && Number.isInteger(value.value);
const natural = (value) => integer(value) && value.value >= 0;
const oneOf = (...words) => (value) => words.includes(value);
const hex = (digits) => (value) => isText(value) && value.length === digits && /^[0-9a-f]*$/.test(value);
const shape = (members) => (value) => fits(value, members);

function fits(value, members) {
  if (!object(value)) return false;
  let known = 0;
  for (const [name, kind] of Object.entries(members)) {
    const optional = name.endsWith('?');
    const member = value.get(optional ? name.slice(0, -1) : name);
    if (member === undefined && optional) continue;
    if (member === undefined || !kind(member) || (optional && member === '')) return false;
    known++;
  }
  return known === value.size;
}

const reason = shape({ 'argument?': short, code: short, 'constraint?': short, 'link?': integer, 'message?': short, 'operation?': short });
const record = {
  action_type: short,
  agent_id: short,
  decision: oneOf('ALLOW', 'DENY', 'ABSTAIN'),
  intent: shape({ 'details?': object, operation: short, 'purpose?': short }),
  'outcome?': object,
  'outcome_status?': oneOf('ACHIEVED', 'FAILED', 'PARTIAL', 'PENDING'),
  powerbox: shape({
    'arguments?': object,
    'attempt?': short,
    'body_commitment?': hex(64),
    'capability?': short,
    chain_id: hex(32),
    'erased?': list,
    'exercised?': list,
    'gate?': shape({ 'allowed?': list, 'missing?': list, origin: short, 'required?': list, target: short }),
    'granted?': list,
    'mode?': short,
    'outcome_of?': short,
    'policy_digest?': short,
    'principal?': short,
    'reasons?': (value) => Array.isArray(value) && value.length > 0 && value.every(reason),
    recorder: short,
    'requester?': short,
    revocation_sequence: natural,
    sequence: natural,
    'signatures?': oneOf('batch'),
    'signing_key_id?': short,
    'tenant?': short,
    'trace_id?': short,
  }),
  prev_record_hash: hex(64),
  record_hash: hex(64),
  record_id: short,
  'signature?': isText,
  'signature_algorithm?': isText,
  'task_id?': short,
  timestamp_utc: short,
};

const key = { alg: isText, 'crv?': isText, kid: isText, kty: isText, 'pub?': isText, recorder: isText, 'x?': isText, 'y?': isText };
const header = shape({ format: isText, 'from?': shape({ hashes: isText, size: integer }), keys: (value) => value === null || (Array.isArray(value) && value.every(shape(key))), origin: isText });
const texts = (value) => Array.isArray(value) && value.every(isText);
const pinned = shape({ ...key, agents: texts, 'not_after?': isText, 'not_before?': isText });
const trusted = shape({ 'batches?': oneOf(true), checkpoint_keys: texts, record_keys: (value) => Array.isArray(value) && value.every(pinned) });

const listed = shape({ agent_id: isText, chain_id: hex(32), recorder: isText, 'records?': (value) => integer(value) && value.value !== 0 });
const chainList = (value) => Array.isArray(value) && value.every(listed);
const recorders = shape({ agent: isText, chains: chainList, format: isText, keys: (value) => Array.isArray(value) && value.every(pinned) });

// --- Bytes ---

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

// unbase64 decodes base64 with padding; strict refuses stray bits at its end.
function unbase64(text, strict = true) {
  if (text.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) return null;
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = characters.charCodeAt(i);
  return strict && base64(bytes) !== text ? null : bytes;
}

function base64(bytes) {
  let text = '';
  for (let i = 0; i < bytes.length; i += 3) {
    const bits = (bytes[i] << 16) | ((bytes[i + 1] ?? 0) << 8) | (bytes[i + 2] ?? 0);
    for (let digit = 0; digit < 4; digit++) text += i + digit <= bytes.length ? alphabet[(bits >> (18 - 6 * digit)) & 63] : '=';
  }
  return text;
}

const unbase64url = (text) => (/[^A-Za-z0-9_-]/.test(text) ? null : unbase64(text.replaceAll('-', '+').replaceAll('_', '/') + '='.repeat(-text.length & 3)));
const base64url = (bytes) => base64(bytes).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
const octets = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));

// unhex reads what hex() has taken: pairs of lower-case digits.
function unhex(text) {
  const bytes = new Uint8Array(text.length >> 1);
  for (let i = 0; i < bytes.length; i++) bytes[i] = parseInt(text.slice(2 * i, 2 * i + 2), 16);
  return bytes;
}

function hexOf(bytes) {
  let text = '';
  for (const byte of bytes) text += octets[byte];
  return text;
}

function concat(...parts) {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

const sha256 = async (...parts) => new Uint8Array(await globalThis.crypto.subtle.digest('SHA-256', concat(...parts)));

// hmac is HMAC-SHA-256, as hex.
async function hmac(k, ...parts) {
  const { subtle } = globalThis.crypto;
  const taken = await subtle.importKey('raw', k, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
  return hexOf(new Uint8Array(await subtle.sign('HMAC', taken, concat(...parts))));
}

// --- Keys ---

// algorithms says how WebCrypto has each algorithm of records. What a platform lacks is unverifiable, never ok. ML-DSA-87 came to
// WebCrypto after the others, with a form of keys of its own.
const algorithms = {
  Ed25519: { form: 'raw', take: { name: 'Ed25519' }, check: { name: 'Ed25519' }, signature: 64 },
  ES256: { form: 'raw', take: { name: 'ECDSA', namedCurve: 'P-256' }, check: { name: 'ECDSA', hash: 'SHA-256' }, signature: 64 },
  'ML-DSA-87': { form: 'raw-public', take: { name: 'ML-DSA-87' }, check: { name: 'ML-DSA-87' }, signature: 4627 },
};

// checker returns a function that says of a message and a signature: true, false, or undefined where the platform lacks the
// algorithm. A P-256 key that is no point of the curve is refused, as in Go; an Ed25519 key that is none verifies nothing.
export async function checker(algorithm, bytes, subtle) {
  const { form, take, check, signature } = algorithms[algorithm];
  const lacking = async (_, given) => (given.length === signature ? undefined : false);
  let public_;
  try {
    public_ = await subtle.importKey(form, bytes, take, false, ['verify']);
  } catch (wrong) {
    if (isLacking(wrong)) return lacking;
    if (algorithm === 'ES256') throw new Error('it is not a point of P-256');
    return async () => false;
  }
  return async (message, given) => {
    if (given.length !== signature) return false;
    try {
      return await subtle.verify(check, public_, given, message);
    } catch (wrong) {
      if (isLacking(wrong)) return undefined;
      throw wrong;
    }
  };
}

// isLacking tells whether a platform does not know an algorithm. One that is older than a form of keys may say so by the type of
// the argument, before it has looked at the algorithm.
const isLacking = (wrong) => wrong.name === 'NotSupportedError' || wrong instanceof TypeError;

async function thumbprint(k) {
  if (k.kty === 'AKP') return base64url(await sha256(utf8(`{"alg":"${k.alg}","kty":"AKP","pub":"${k.pub ?? ''}"}`)));
  const y = k.kty === 'EC' ? `,"y":"${k.y ?? ''}"` : '';
  return base64url(await sha256(utf8(`{"crv":"${k.crv ?? ''}","kty":"${k.kty}","x":"${k.x ?? ''}"${y}}`)));
}

async function recordKey(k, subtle) {
  const [x, y, pub] = [k.x, k.y, k.pub].map((text) => unbase64url(text ?? ''));
  if (!x || !y || !pub) throw new Error(`key ${quote(k.kid)}: x, y and pub are base64url without padding`);
  if (k.kid !== (await thumbprint(k))) throw new Error(`key ${quote(k.kid)}: kid must be the RFC 7638 thumbprint, ${await thumbprint(k)}`);
  const kind = [k.kty, k.crv ?? '', k.alg, x.length, y.length, pub.length].join(' ');
  if (kind === 'OKP Ed25519 Ed25519 32 0 0') return checker('Ed25519', x, subtle);
  if (kind === 'EC P-256 ES256 32 32 0') return checker('ES256', concat([4], x, y), subtle);
  if (kind === 'AKP  ML-DSA-87 0 0 2592') return checker('ML-DSA-87', pub, subtle);
  throw new Error(`key ${quote(k.kid)}: OKP Ed25519, EC P-256 or AKP ML-DSA-87 with its own algorithm is needed`);
}

const spaces = /[\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/;
const validName = (name) => name !== '' && !spaces.test(name) && !name.includes('+');

// logKey reads a verifier key (C2SP signed-note vkey).
async function logKey(text, subtle) {
  const [, name, hash, encoded] = /^([^+]*)\+([0-9a-fA-F]{8})\+(.*)$/s.exec(text) ?? [];
  const bytes = unbase64(encoded ?? '!', false);
  if (!bytes || bytes.length !== 33 || bytes[0] !== 1 || !validName(name)) throw new Error(`checkpoint key ${quote(text)} is no Ed25519 verifier key`);
  const id = hexOf((await sha256(utf8(`${name}\n`), bytes)).slice(0, 4));
  if (id !== hash.toLowerCase()) throw new Error(`checkpoint key ${quote(text)} does not have its own hash`);
  return { name, id, holds: await checker('Ed25519', bytes.slice(1), subtle) };
}

// instant returns nanoseconds since 1970 of an RFC 3339 time as Go writes it, which is the only form.
function instant(text) {
  const [, day, fraction = '', sign, hours, minutes] = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{0,8}[1-9]))?(?:Z|([+-])(\d\d):(\d\d))$/.exec(text) ?? [];
  const wall = day && moment(`${day}.000Z`);
  if (wall === undefined || wall === null || Number(hours ?? 0) > 23 || Number(minutes ?? 0) > 59 || (sign && hours + minutes === '0000')) {
    throw new Error(`time ${quote(text)} is not RFC 3339 in its one form`);
  }
  const away = BigInt(`${sign === '-' ? '-' : ''}${Number(hours ?? 0) * 60 + Number(minutes ?? 0)}`) * 60_000n;
  return (BigInt(wall) - away) * 1_000_000n + BigInt(fraction.padEnd(9, '0'));
}

// moment returns milliseconds since 1970 of a time as records have it, or null.
function moment(text) {
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(text)) return null;
  const time = new Date(text);
  return Number.isNaN(time.getTime()) || time.toISOString() !== text ? null : time.getTime();
}

const zeroTime = moment('0001-01-01T00:00:00.000Z');

// parseTrust reads the trust file: what is pinned, checked before a byte of a bundle is read. options.subtle stands in for the
// platform's WebCrypto.
export async function parseTrust(data, options = {}) {
  const subtle = options.subtle ?? globalThis.crypto.subtle;
  const bytes = isText(data) ? utf8(data) : data;
  const file = new Reader(canonical(bytes, maxLine)).whole();
  if (!trusted(file)) throw new Error('trust file: a member is misspelt, missing or of another kind');
  const trust = { log: [], keys: new Map(), batches: file.has('batches'), quorum: { witnesses: [], number: 0 }, subtle };
  for (const text of file.get('checkpoint_keys')) trust.log.push(await logKey(text, subtle));
  for (const members of file.get('record_keys')) await pin(trust, Object.fromEntries(members));
  if (!trust.log.length || !trust.keys.size) throw new Error('nothing is pinned: at least one checkpoint key and one record key are needed');
  return trust;
}

async function pin(trust, k) {
  const holds = await recordKey(k, trust.subtle);
  if (!k.recorder || !k.agents.length) throw new Error(`pinned key ${quote(k.kid)} has no recorder or no agents`);
  if (trust.keys.has(k.kid)) throw new Error(`key ${quote(k.kid)} is pinned twice`);
  const at = (text) => (text === undefined ? undefined : instant(text));
  const [from, to] = [at(k.not_before), at(k.not_after)];
  if ([from, to].includes(BigInt(zeroTime) * 1_000_000n)) throw new Error(`pinned key ${quote(k.kid)} has a time that means none`);
  trust.keys.set(k.kid, { ...k, from, to, holds });
}

// parseRecorders reads a list of recorders, as the key endpoint of an agent has it (EXT-33). Its keys are not trusted.
export async function parseRecorders(data, options = {}) {
  const file = new Reader(canonical(isText(data) ? utf8(data) : data, maxLine)).whole();
  if (!recorders(file) || file.get('format') !== recordersForm) throw new Error('list of recorders: a member is misspelt, missing or of another kind');
  const keys = file.get('keys').map((members) => Object.fromEntries(members));
  for (const k of keys) await recordKey(k, options.subtle ?? globalThis.crypto.subtle);
  return { agent: file.get('agent'), keys, chains: file.get('chains').map(chainOf) };
}

const chainOf = (members) => ({ agent: members.get('agent_id'), recorder: members.get('recorder'), chain: members.get('chain_id'), records: members.get('records')?.value ?? 0 });

// --- Checkpoints (C2SP signed-note and tlog-checkpoint) ---

// Wrong is what is wrong with a checkpoint, with its kind.
class Wrong extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}

const malformed = (message) => new Wrong('malformed', `checkpoint: ${message}`);

// signatureLine reads one line under a checkpoint.
function signatureLine(line) {
  const cut = line.indexOf(' ', 2);
  const [name, text] = cut < 0 ? [line.slice(2), ''] : [line.slice(2, cut), line.slice(cut + 1)];
  const bytes = text && unbase64(text, false);
  if (!line.startsWith('\u2014 ') || !validName(name) || !bytes || bytes.length < 5) throw malformed('malformed note');
  return { line, name, text, id: hexOf(bytes.slice(0, 4)), signature: bytes.slice(4) };
}

// openCheckpoint returns origin, size (a BigInt) and root of a signed checkpoint, or throws a Wrong. lacking says that its
// signature could not be checked here.
export async function openCheckpoint(signed, trust) {
  if (utf8(signed).length > maxCheckpoint) throw malformed('too large');
  const split = signed.lastIndexOf('\n\n');
  if (split < 0 || !signed.endsWith('\n') || split + 2 === signed.length || /[\u0000-\u0009\u000b-\u001f]/.test(signed)) throw malformed('malformed note');
  const text = signed.slice(0, split + 1);
  const lines = signed.slice(split + 2, -1).split('\n');
  const { names, strangers, repeated, lacking, stray } = await signers(text, lines, trust.log);
  if (!names.size) throw new Wrong('unknown_key', `checkpoint: note has no verifiable signatures, but ${strangers} of keys that are not pinned`);
  if (repeated) throw malformed('a signature line is there twice');
  if (stray) throw malformed(`signature of ${quote(stray)} is not strict base64`);
  const checkpoint = readCheckpoint(text);
  if (!names.has(checkpoint.origin)) throw malformed(`no signature of a known key of the name ${quote(checkpoint.origin)}`);
  return { ...checkpoint, lacking };
}

// signers finds which keys have signed a note. lines are the first line of each.
async function signers(text, lines, keys) {
  const seen = new Set();
  const found = { names: new Set(), lines: [], strangers: 0, repeated: false, lacking: false, stray: '' };
  for (const [index, each] of lines.entries()) {
    const line = signatureLine(each);
    if (index === 100) throw malformed('malformed note');
    const known = keys.filter((k) => k.name === line.name && k.id === line.id);
    if (known.length > 1) throw malformed(`two keys ${line.name}+${line.id} are pinned`);
    if (unbase64(line.text) === null) found.stray ||= line.name;
    const mark = known.length ? `${line.name}+${line.id}` : each;
    if (seen.has(mark)) {
      found.repeated = true;
      continue;
    }
    seen.add(mark);
    if (!known.length) {
      found.strangers++;
      continue;
    }
    const holds = await known[0].holds(utf8(text), line.signature);
    if (holds === false) throw new Wrong('bad_signature', `checkpoint: invalid signature for key ${line.name}+${line.id}`);
    found.lacking ||= holds === undefined;
    found.names.add(line.name);
    found.lines.push(line);
  }
  return found;
}

// pinWitnesses makes a trust demand cosignatures (C2SP tlog-cosignature) of so many of these witnesses, whose keys are those of
// "powerbox witness key". A witness counts once.
export async function pinWitnesses(trust, keys, number = keys.length) {
  const witnesses = await Promise.all(keys.map((text) => witnessKey(text, trust.subtle)));
  const once = (member) => new Set(witnesses.map((w) => w[member])).size === witnesses.length;
  if (!once('name') || !once('public')) throw new Error('a witness is pinned twice, by its name or by its key; it counts once');
  if (!Number.isInteger(number) || number < 0 || number > keys.length) throw new Error(`a quorum of ${number} cannot be had from ${many(keys.length, 'witness')}`);
  trust.quorum = { witnesses, number };
  return trust;
}

// witnessKey reads the key of a witness: a vkey of signature type 4.
async function witnessKey(text, subtle) {
  const [, name, hash, encoded] = /^([^+]*)\+([0-9a-f]{8})\+(.*)$/s.exec(text ?? '') ?? [];
  const bytes = unbase64(encoded ?? '!');
  if (bytes?.length !== 33 || bytes[0] !== 4 || !validName(name)) throw new Error(`${quote(text)} is not the key of a witness`);
  const id = hexOf((await sha256(utf8(`${name}\n`), bytes)).slice(0, 4));
  if (id !== hash) throw new Error(`key ${quote(text)} of a witness does not have its own hash`);
  const ed25519 = await checker('Ed25519', bytes.slice(1), subtle);
  const holds = async (message, signature) => {
    if (signature.length !== 72 || signature[0] > 127) return false; // a time, and a signature over it and the checkpoint
    return ed25519(concat(utf8(`cosignature/v1\ntime ${timeOf(signature)}\n`), message), signature.slice(8));
  };
  return { name, id, public: encoded, holds };
}

// timeOf is the time of a cosignature in seconds since 1970.
const timeOf = (signature) => new DataView(signature.buffer, signature.byteOffset, 8).getBigUint64(0);

// cosigners returns who of the pinned witnesses has cosigned a checkpoint that openCheckpoint has opened, and what is wrong where
// they are too few. It throws a Wrong where one of them cannot have made its cosignature.
async function cosigners(signed, trust) {
  const { witnesses, number } = trust.quorum;
  if (!witnesses.length) return { cosigned: [], lacking: false };
  const split = signed.lastIndexOf('\n\n');
  const { lines, lacking } = await signers(signed.slice(0, split + 1), signed.slice(split + 2, -1).split('\n'), witnesses);
  const cosigned = lines.map(({ name, signature }) => ({ witness: name, time: dateOf(timeOf(signature)) }));
  if (lines.length >= number) return { cosigned, lacking };
  return { cosigned, lacking, few: new Wrong('not_witnessed', `${lines.length} of the ${witnesses.length} pinned witnesses have cosigned the checkpoint, ${number} are needed`) };
}

async function demandCosigned(signed, trust) {
  const found = await cosigners(signed, trust);
  if (found.few) throw found.few;
  return found;
}

// dateOf writes a time as Go does. Dates of JavaScript have no seconds beyond the year 275760.
function dateOf(seconds) {
  const date = new Date(Number(seconds) * 1000);
  return Number.isNaN(date.getTime()) ? `${seconds} seconds since 1970` : date.toISOString().replace('.000Z', 'Z');
}

function readCheckpoint(text) {
  const lines = text.split('\n');
  const root = unbase64(lines[2] ?? '');
  const decimals = /^(?:0|[1-9][0-9]{0,18})$/.test(lines[1] ?? '');
  if (lines.length !== 4 || lines[0] === '' || !decimals || BigInt(lines[1]) >= 1n << 63n || root?.length !== 32) {
    throw malformed('not in its one form: origin, size, root');
  }
  return { origin: lines[0], size: BigInt(lines[1]), root: lines[2] };
}

// --- The tree (RFC 6962) ---

const leafHash = (leaf) => sha256([0], leaf);
const nodeHash = (left, right) => sha256([1], left, right);

// treeRoot returns the root of all hashes, as base64. An odd hash at the end of a level goes up as it is.
export async function treeRoot(leaves) {
  if (!leaves.length) return base64(await sha256());
  let level = leaves;
  while (level.length > 1) {
    const above = [];
    for (let from = 0; from < level.length; from += 2048) {
      const pairs = [];
      for (let i = from; i < Math.min(from + 2048, level.length); i += 2) pairs.push(i + 1 < level.length ? nodeHash(level[i], level[i + 1]) : level[i]);
      above.push(...(await Promise.all(pairs)));
    }
    level = above;
  }
  return base64(level[0]);
}

// rootBehind is treeRoot of a tree of which the first base entries are known by the hashes at its edge alone, smallest subtree first.
async function rootBehind(base, edge, leaves) {
  if (base === 0) return treeRoot(leaves);
  const stack = [];
  let rest = base;
  for (const hash of edge) {
    const bit = Number(BigInt(rest) & -BigInt(rest));
    stack.unshift({ size: bit, hash });
    rest -= bit;
  }
  for (const leaf of leaves) {
    stack.push({ size: 1, hash: leaf });
    while (stack.length > 1 && stack.at(-1).size === stack.at(-2).size) {
      const right = stack.pop();
      const left = stack.pop();
      stack.push({ size: 2 * left.size, hash: await nodeHash(left.hash, right.hash) });
    }
  }
  let root = stack.pop().hash;
  while (stack.length) root = await nodeHash(stack.pop().hash, root);
  return base64(root);
}

// climb returns the root that an inclusion proof leads to, or null.
async function climb(hashes, from, to, index, leaf) {
  if (to - from === 1n) return hashes.length ? null : leaf;
  if (!hashes.length) return null;
  let half = 1n;
  while (half * 2n < to - from) half *= 2n;
  const left = index < from + half;
  const rest = hashes.slice(0, -1);
  const below = await (left ? climb(rest, from, from + half, index, leaf) : climb(rest, from + half, to, index, leaf));
  const beside = hashes.at(-1);
  return below && (left ? nodeHash(below, beside) : nodeHash(beside, below));
}

// --- Records ---

// readRecord reads a stored record: its members, what is hashed of it, and its place in the tree. It throws where the record is
// not in its one form.
export async function readRecord(bytes) {
  const whole = exactly(bytes);
  if (!fits(whole, record)) throw new Error('not a record: a member is misspelt, missing, empty, too long or of another kind');
  const get = (name) => whole.get(name);
  const own = (name) => get('powerbox').get(name);
  const time = moment(get('timestamp_utc'));
  const signature = unbase64url(get('signature') ?? '');
  const required = [get('record_id'), get('agent_id'), get('action_type'), get('intent').get('operation'), own('recorder')];
  if (required.includes('')) throw new Error(`record ${quote(get('record_id'))} lacks what every record has`);
  if (time === null || get('timestamp_utc') < '0001' || time === zeroTime) throw new Error(`record ${quote(get('record_id'))} has no timestamp_utc like 2006-01-02T15:04:05.000Z`);
  if (!signature) throw new Error(`record ${quote(get('record_id'))}: signature is not base64url without padding`);
  const body = new Map([...whole].filter(([name]) => !['record_hash', 'prev_record_hash', 'signature'].includes(name)));
  const hashed = utf8(write(body));
  if (hashed.length > maxRecord) throw new Error(`record ${quote(get('record_id'))} has ${hashed.length} bytes, at most ${maxRecord} are allowed`);
  const prev = get('prev_record_hash');
  const sequence = new DataView(new ArrayBuffer(8));
  sequence.setBigUint64(0, BigInt(own('sequence').value));
  const stated = get('record_hash');
  const leaf = concat(utf8(leafForm), unhex(own('chain_id')), new Uint8Array(sequence.buffer), unhex(prev), unhex(stated), await sha256(signature));
  return {
    id: get('record_id'), agent: get('agent_id'), recorder: own('recorder'), chain: own('chain_id'), sequence: own('sequence').value,
    prev, hash: stated, real: hexOf(await sha256(utf8(prev), hashed)), body: hashed, bare: leaf, leaf: await leafHash(leaf),
    time: BigInt(time) * 1_000_000n, keyID: own('signing_key_id') ?? '', algorithm: get('signature_algorithm') ?? '', signature,
    commitment: own('body_commitment') ?? '', erased: own('erased') ?? [],
    batched: own('signatures') === 'batch', pending: get('outcome_status') === 'PENDING', told: await toldBy(whole), ends: ended(whole),
  };
}

// toldBy is what an outcome record says: of which record, whether it is an end, and the hash of what became of it.
async function toldBy(whole) {
  const [of, status, outcome] = [whole.get('powerbox').get('outcome_of'), whole.get('outcome_status') ?? '', whole.get('outcome')];
  if (!of) return null;
  const said = hexOf(await sha256(utf8(`${status}\n${outcome ? write(outcome) : ''}`)));
  return { of, ends: ['ACHIEVED', 'FAILED', 'PARTIAL'].includes(status), said };
}

// notFollowing says why an outcome does not count for a decision, '' where it does. Without the decision, what is not known is left out.
function notFollowing(e, of) {
  let why = '';
  if (!e.told.ends) why = 'says neither ACHIEVED, FAILED nor PARTIAL';
  else if (!of) return '';
  else if (e.chain !== of.chain) why = 'is of another chain; only the recorder of a decision tells its outcome, in the same chain';
  else if (e.sequence <= of.sequence) why = 'does not come after it';
  else if (!of.pending) why = 'comes where no outcome is awaited';
  return why && `record ${quote(e.id)} tells an outcome of record ${quote(e.told.of)} and ${why}`;
}

// ended returns the chains that a gateway leaves behind, by the record of its end in the issuer's own chain.
function ended(whole) {
  if (whole.get('action_type') !== 'gateway.close' || whole.get('agent_id') !== issuerID) return [];
  const chains = whole.get('intent').get('details')?.get('chains');
  return chainList(chains) ? chains.map(chainOf) : [];
}

// checkSignature says what is wrong with a record's signature, '' for nothing, undefined where the platform cannot say.
async function checkSignature(r, k) {
  if (!r.signature.length) return `record ${quote(r.id)} is not signed`;
  if (r.algorithm !== k.alg) return `record ${quote(r.id)} says algorithm ${quote(r.algorithm)}, its key is for ${quote(k.alg)}`;
  const holds = await k.holds(unhex(r.hash), r.signature);
  return holds === undefined ? undefined : holds ? '' : `record ${quote(r.id)}: signature does not verify with key ${k.kid}`;
}

// notAllowed says why a key may not have signed a record.
function notAllowed(k, r) {
  if (r.recorder !== k.recorder) return `key ${k.kid} belongs to recorder ${quote(k.recorder)}, not ${quote(r.recorder)}`;
  if (!k.agents.includes('*') && !k.agents.includes(r.agent)) return `key ${k.kid} is not pinned for agent ${quote(r.agent)}`;
  if ((k.from !== undefined && r.time < k.from) || (k.to !== undefined && r.time > k.to)) return `key ${k.kid} was not in use at that time`;
  return '';
}

// recordSteps makes the checks of verifyRecord one by one, for a page: whether each holds (undefined where the platform cannot say),
// what was looked at, and what that proves. verifyRecord is the judge; it demands the cosignatures, too.
export async function* recordSteps(stored, proof, trust) {
  const r = await readRecord(isText(stored) ? utf8(stored) : stored);
  yield { holds: r.real === r.hash, says: `The record hashes to ${r.real}${r.real === r.hash ? ', as it states.' : `, but states ${r.hash}.`}`, proves: 'The hash stands for every byte of it.' };
  const k = trust.keys.get(r.keyID);
  if (!k) yield { holds: false, says: `The record is signed with key ${r.keyID}, which the trust file does not have.`, proves: '' };
  else if (trust.batches && r.batched && !r.signature.length) yield { holds: true, says: 'The record has no signature of its own.', proves: 'The trust file lets a later record of its chain sign for it, which a bundle shows.' };
  else yield signatureStep(await checkSignature(r, k), notAllowed(k, r), k);
  const { index, hashes, signed } = readProof(isText(proof) ? proof : decode(proof));
  let checkpoint;
  try {
    checkpoint = await openCheckpoint(signed, trust);
  } catch (wrong) {
    yield { holds: false, says: `The signature of the log: ${wrong.message}`, proves: '' };
    return;
  }
  const root = index < 0n || index >= checkpoint.size ? null : await climb(hashes, 0n, checkpoint.size, index, r.leaf);
  const leads = root !== null && base64(root) === checkpoint.root;
  yield { holds: leads, says: `The leaf of the record and ${hashes.length === 1 ? '1 hash' : `${hashes.length} hashes`} ${leads ? 'lead' : 'do not lead'} to the root ${checkpoint.root}.`, proves: `It is entry ${index} of the ${checkpoint.size} of the log.` };
  yield { holds: checkpoint.lacking ? undefined : true, says: `The key of ${checkpoint.origin} signed that root.`, proves: 'Every auditor who has this root has the same history.' };
}

function signatureStep(wrong, denied, k) {
  const proves = `The recorder ${quote(k.recorder)} made it, and nothing was changed since.`;
  if (wrong === undefined) return { holds: undefined, says: `This browser lacks ${k.alg}, so it cannot check the signature.`, proves: 'powerbox evidence verify checks it.' };
  return { holds: !wrong && !denied, says: wrong || denied || `The ${k.alg} signature verifies with key ${k.kid}.`, proves: wrong || denied ? '' : proves };
}

// verifyRecord checks one record that was handed out with its proof (C2SP tlog-proof). It returns 'ok' or 'unverifiable', and
// throws where anything is wrong.
export async function verifyRecord(stored, proof, trust) {
  const r = await readRecord(isText(stored) ? utf8(stored) : stored);
  if (r.real !== r.hash) throw new Error(`record ${quote(r.id)} hashes to ${r.real}, but states ${r.hash}`);
  const k = trust.keys.get(r.keyID);
  if (!k) throw new Error(`record ${quote(r.id)} is signed with key ${quote(r.keyID)}, which is not pinned`);
  const covered = trust.batches && r.batched && !r.signature.length;
  const wrong = covered ? '' : await checkSignature(r, k);
  if (wrong || notAllowed(k, r)) throw new Error(wrong || notAllowed(k, r));
  const { index, hashes, signed } = readProof(isText(proof) ? proof : decode(proof));
  const checkpoint = await openCheckpoint(signed, trust);
  const root = index < 0n || index >= checkpoint.size ? null : await climb(hashes, 0n, checkpoint.size, index, r.leaf);
  if (!root || base64(root) !== checkpoint.root) throw new Error(`proof does not hold: entry ${index} of ${checkpoint.origin}`);
  const { lacking } = await demandCosigned(signed, trust);
  return wrong === undefined || checkpoint.lacking || lacking ? 'unverifiable' : 'ok';
}

function readProof(text) {
  const [above] = text.split('\n\n', 1);
  const [form, second, ...rest] = above.split('\n');
  const index = /^index (0|[1-9][0-9]{0,18})$/.exec(second ?? '')?.[1];
  const hashes = rest.map((line) => unbase64(line));
  if (utf8(text).length > maxCheckpoint || above.length === text.length || form !== proofForm || index === undefined || rest.length > 63 || hashes.some((h) => h?.length !== 32)) {
    throw new Error('proof is not in its one form');
  }
  return { index: BigInt(index), hashes, signed: text.slice(above.length + 2) };
}

const receiptShape = shape({ form: isText, leaf: isText, proof: isText });

// verifyReceipt checks a receipt, which shows that a record is in the log, and with the stored record that it is that one. It
// returns the verdict, 'ok' or 'unverifiable', with what the receipt says, and throws where anything is wrong.
export async function verifyReceipt(given, trust, stored) {
  const bytes = isText(given) ? utf8(given) : given;
  if (bytes.length > maxReceipt) throw new Error(`receipt of ${bytes.length} bytes, at most ${maxReceipt} are allowed`);
  const value = exactly(bytes);
  const leaf = receiptShape(value) && value.get('form') === receiptForm && unbase64(value.get('leaf'));
  if (leaf?.length !== 141 || !utf8(leafForm).every((byte, at) => leaf[at] === byte)) throw new Error('receipt is not in its one form');
  const { index, hashes, signed } = readProof(value.get('proof'));
  const checkpoint = await openCheckpoint(signed, trust);
  const root = index < 0n || index >= checkpoint.size ? null : await climb(hashes, 0n, checkpoint.size, index, await leafHash(leaf));
  if (!root || base64(root) !== checkpoint.root) throw new Error(`receipt does not hold: entry ${index} of ${checkpoint.origin}`);
  const { cosigned, lacking } = await demandCosigned(signed, trust);
  if (stored !== undefined) {
    const r = await readRecord(isText(stored) ? utf8(stored) : stored);
    if (r.real !== r.hash || base64(r.bare) !== value.get('leaf')) throw new Error('the receipt is of another record, or of one with another signature');
  }
  const at = leafForm.length;
  const sequence = Number(new DataView(leaf.buffer, leaf.byteOffset + at + 16, 8).getBigUint64(0));
  return { verdict: checkpoint.lacking || lacking ? 'unverifiable' : 'ok', origin: checkpoint.origin, chain_id: hexOf(leaf.slice(at, at + 16)), sequence, record_hash: hexOf(leaf.slice(-64, -32)), index: Number(index), size: Number(checkpoint.size), cosigned };
}

// --- Bundles ---

// lines yields every line of a source without its line feed, or says why there is no more.
async function* lines(source) {
  let held = [];
  let length = 0;
  for await (const chunk of chunks(source)) {
    let from = 0;
    for (let to = chunk.indexOf(10); to >= 0; to = chunk.indexOf(10, from)) {
      if (length + to - from + 1 > maxLine) return yield { wrong: `line is longer than ${maxLine} bytes` };
      yield { line: held.length ? concat(...held, chunk.subarray(from, to)) : chunk.subarray(from, to) };
      [held, length, from] = [[], 0, to + 1];
    }
    if (from < chunk.length) held.push(chunk.subarray(from));
    length += chunk.length - from;
    if (length >= maxLine) return yield { wrong: `line is longer than ${maxLine} bytes` };
  }
  if (length) yield { wrong: 'last line has no line feed: the file is cut off' };
}

async function* chunks(source) {
  if (source instanceof Uint8Array) return yield source;
  if (source?.stream) source = source.stream();
  if (!source?.getReader) return yield* source;
  const reader = source.getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) yield part.value;
}

// ahead runs work on up to 64 lines at once, and gives its results in order.
async function* ahead(source, work) {
  const running = [];
  for await (const each of source) {
    running.push(work(each));
    if (running.length === 64) yield await running.shift();
  }
  for (const each of running) yield await each;
}

const begins = (line, mark) => mark.every((byte, at) => line[at] === byte);
const leavesMark = utf8('{"leaves":');
const checkpointMark = utf8('{"checkpoint":');
const bodyMark = utf8('{"body":');

// verify reads a bundle and checks every line, hash, signature and chain, and that the records are exactly those under the signed
// checkpoint, in its order. It returns the report of "powerbox evidence verify --output json" with one verdict and one count
// more: unverifiable. options.seen are checkpoints of the log that openCheckpoint has opened before, options.recorders lists that
// parseRecorders has read.
export async function verify(source, trust, options = {}) {
  return verifySeries([source], trust, options);
}

// verifySeries is verify for several bundles of one log, each of which begins where the one before ends: closed periods, oldest
// first, and what is behind them. What the first one begins behind need not be there, if a checkpoint
// that ends there was kept (options.seen).
export async function verifySeries(sources, trust, options = {}) {
  if (!sources.length) throw new Error('no bundle to verify');
  const v = new Verifier(trust, options.seen ?? [], options.recorders ?? [], sources.length);
  for (const source of sources) {
    const part = v.begin();
    let number = part.before;
    const work = async (given) => {
      const line = ++number;
      const isRecord = given.line && line > part.before + 1 && ![checkpointMark, leavesMark, bodyMark].some((mark) => begins(given.line, mark));
      return { ...given, number: line, read: isRecord ? await examine(given.line, trust) : undefined };
    };
    let stopped = false;
    for await (const each of ahead(lines(source), work)) {
      v.line = each.number;
      stopped = each.wrong !== undefined;
      if (stopped) v.problem('malformed', null, each.wrong);
      else await v.take(each);
    }
    if (!stopped) v.line = number + 1;
    part.last = v.line;
  }
  return v.finish();
}

// examine does what needs nothing but one line of a record.
async function examine(line, trust) {
  try {
    const r = await readRecord(line);
    const k = trust.keys.get(r.keyID);
    const wrong = r.real === r.hash && k ? await checkSignature(r, k) : '';
    delete r.body;
    delete r.bare;
    return { r, wrong };
  } catch (refused) {
    return { refused };
  }
}

class Verifier {
  constructor(trust, seen, recorders, series) {
    Object.assign(this, { trust, seen, recorders, series, expected: [], line: 0, entries: [], ids: new Map(), settled: new Set(), reported: new Set() });
    Object.assign(this, { unreadable: 0, excuses: [], gaps: 0, parts: [], midway: false, lengths: [] });
    this.recordLine = 0;
    const bodies = { committed: 0, opened: 0, erased: 0 };
    this.report = { verdict: 'ok', origin: '', size: 0, root: '', records: 0, covered: 0, unverifiable: 0, bodies, chains: [], outcome_unknown: [], problems: [] };
  }

  // begin is the next bundle of the series.
  begin() {
    this.parts.push({ before: this.line, last: 0, headed: false, base: 0, edge: [], leaves: [], checkpoint: null, ended: 0 });
    return this.parts.at(-1);
  }

  // place says in which bundle of several a line is, from 1, and which line of it.
  place(line) {
    let bundle = this.parts.length;
    while (bundle > 1 && line <= this.parts[bundle - 1].before) bundle--;
    return { ...(this.series > 1 && { bundle }), line: line - this.parts[bundle - 1].before };
  }

  // where names a line for a person.
  where(at) {
    const { bundle, line } = this.place(at);
    return bundle ? `line ${line} of bundle ${bundle}` : `line ${line}`;
  }

  // problem notes what is wrong, once per kind and line. Without an entry it is the line that is being read.
  problem(kind, entry, message) {
    const line = entry ? entry.line : this.line;
    if (this.reported.has(`${kind}@${line}`)) return;
    this.reported.add(`${kind}@${line}`);
    const of = entry ? { record_id: entry.id, chain_id: entry.chain, sequence: entry.sequence } : { sequence: 0 };
    this.report.problems.push({ kind, ...this.place(line), ...of, message });
  }

  async take({ line, read }) {
    const part = this.parts.at(-1);
    if (this.line === part.before + 1) this.takeHeader(line, part);
    else if (part.ended) this.problem('malformed', null, 'there is something behind the checkpoint, which is the last line');
    else if (read) this.takeRecord(read);
    else if (begins(line, checkpointMark)) await this.takeCheckpoint(line);
    else if (begins(line, bodyMark)) await this.takeBody(line);
    else this.takeLeaves(line);
  }

  // exact reads a line that is no record.
  exact(name, line, kind) {
    try {
      const value = exactly(line);
      if (kind(value)) return value;
      throw new Error('a member is misspelt, missing or of another kind');
    } catch (refused) {
      this.problem('malformed', null, `${name}: ${refused.message}`);
      return null;
    }
  }

  takeHeader(line, part) {
    const value = this.exact('header', line, header);
    if (!value) return;
    if (value.get('format') !== bundleForm) this.problem('malformed', null, `header: format ${quote(value.get('format'))}; this verifier reads ${quote(bundleForm)}`);
    const from = value.get('from');
    const size = from?.get('size').value ?? 0;
    const edge = from && unbase64(from.get('hashes'));
    const ones = size > 0 ? BigInt(size).toString(2).replaceAll('0', '').length : 0;
    part.headed = !from || (ones > 0 && edge?.length === 32 * ones);
    if (!part.headed) this.problem('malformed', null, 'header: from: a number of entries and the hashes at the edge of their tree expected');
    else if (from) Object.assign(part, { base: size, edge: Array.from({ length: ones }, (_, n) => edge.slice(32 * n, 32 * n + 32)) });
    if (this.parts.length === 1) {
      this.report.origin = value.get('origin');
      this.midway = part.base > 0;
    } else if (value.get('origin') !== this.report.origin) {
      this.problem('malformed', null, `header: the bundle is of log ${quote(value.get('origin'))}, the first one of ${quote(this.report.origin)}`);
    }
    for (const given of value.get('keys') ?? []) {
      const k = this.trust.keys.get(given.get('kid'));
      const same = k && Object.keys(key).every((name) => k[name.replace('?', '')] === given.get(name.replace('?', '')));
      if (!same) this.problem('unknown_key', null, `header: key ${quote(given.get('kid'))} of recorder ${quote(given.get('recorder'))} is not pinned, or is pinned differently`);
    }
  }

  takeRecord({ r, wrong, refused }) {
    this.recordLine = this.line;
    if (refused) {
      this.unreadable++;
      this.excuses.push(this.line);
      this.problem('malformed', null, `record: ${refused.message}`);
      return;
    }
    const e = { ...r, line: this.line, damaged: r.real !== r.hash, unsigned: false, vouched: false, key: '', covered: false, repeated: false };
    this.report.records++;
    if (e.damaged) {
      this.excuses.push(this.line);
      this.problem('hash_mismatch', e, `record ${quote(e.id)} hashes to ${r.real}, but states ${r.hash}`);
    } else {
      this.checkSigner(e, wrong);
      this.checkUnique(e);
      if (e.vouched) this.expected.push(...e.ends.map((c) => ({ ...c, line: e.line })));
      if (e.commitment) this.report.bodies.committed++;
    }
    this.entries.push(e);
  }

  // countErased counts the bodies that are not here because they were erased. Who did not sign, or may not, says nothing of bodies,
  // and neither does whoever signs for one agent: only the issuer erases, in its own chain (ATK-70).
  countErased() {
    const gone = new Set();
    for (const e of this.entries) {
      if (!e.erased.length || e.damaged || !e.vouched || e.unsigned) continue;
      if (e.agent === issuerID) e.erased.forEach((id) => gone.add(id));
      else this.problem('bad_erasure', e, `record ${quote(e.id)} says that bodies were erased, and is of agent ${quote(e.agent)}; only the issuer erases, in its own chain`);
    }
    this.report.bodies.erased = this.entries.filter((e) => e.commitment && !e.opened && !e.damaged && gone.has(e.id)).length;
  }

  // checkOutcomes holds outcome records against their decisions, as far as those are here, and settles the decisions. The first
  // outcome of a decision counts; a later one that says something else is a second story (ATK-71).
  checkOutcomes() {
    const outcomes = this.entries.filter((e) => e.told && !e.damaged && e.vouched && !e.unsigned && !e.repeated);
    const named = new Set(outcomes.map((e) => e.told.of));
    const decisions = new Map();
    for (const e of this.entries) if (named.has(e.id) && !e.damaged && !decisions.has(e.id)) decisions.set(e.id, e);
    const counted = new Map();
    for (const e of outcomes) {
      const why = notFollowing(e, decisions.get(e.told.of));
      if (why) this.problem('bad_outcome', e, why);
      else if (counted.has(e.told.of)) counted.get(e.told.of).push(e);
      else counted.set(e.told.of, [e]);
    }
    for (const [of, all] of counted) {
      this.settled.add(of);
      const [first, ...later] = all.sort(bySequence);
      for (const e of later) {
        if (e.told.said !== first.told.said) this.problem('two_outcomes', e, `record ${quote(e.id)} tells another outcome of record ${quote(of)} than record ${quote(first.id)} does`);
      }
    }
  }

  // takeBody checks a body against the record on the line before it. Where that record cannot be read or is damaged, nothing can
  // be said of its body.
  async takeBody(line) {
    const value = this.exact('body', line, shape({ body: isText, key: isText }));
    if (!value) return;
    const [body, k] = ['body', 'key'].map((name) => unbase64(value.get(name)));
    if (!body || !k) return this.problem('malformed', null, 'body: base64 of a body and of its key expected');
    if (this.recordLine !== this.line - 1) return this.problem('malformed', null, 'body: the line before it is no record, so that it is nobody\'s');
    const of = this.entries.at(-1);
    if (!of || of.line !== this.recordLine || of.damaged) return;
    if (k.length !== 32 || (await hmac(k, utf8(bodyForm), body)) !== of.commitment) {
      this.problem('body_mismatch', { ...of, line: this.line }, `record ${quote(of.id)}: the body is not what the record commits to`);
      return;
    }
    of.opened = true;
    this.report.bodies.opened++;
  }

  checkSigner(e, wrong) {
    const k = this.trust.keys.get(e.keyID);
    if (!k) {
      if (e.signature.length) return this.problem('unknown_key', e, `record ${quote(e.id)} is signed with key ${quote(e.keyID)}, which is not pinned`);
      wrong = `record ${quote(e.id)} is not signed`;
    }
    e.covered = Boolean(this.trust.batches && k && e.batched && !e.signature.length);
    if (wrong && !e.covered) {
      e.unsigned = true;
      return this.problem('bad_signature', e, wrong);
    }
    if (wrong === undefined) this.report.unverifiable++;
    e.key = k.kid;
    const why = notAllowed(k, e);
    e.vouched = !why;
    if (why) this.problem('key_not_allowed', e, `record ${quote(e.id)}: ${why}`);
  }

  // checkUnique finds an id that was used before. The same record again has no place in its chain; another one with that id has.
  checkUnique(e) {
    const first = this.ids.get(e.id);
    if (!first) return this.ids.set(e.id, { line: e.line, hash: e.hash });
    e.repeated = first.hash === e.hash;
    this.problem('duplicate', e, `record id ${quote(e.id)} is already on ${this.where(first.line)}`);
  }

  takeLeaves(line) {
    const value = this.exact('leaves', line, shape({ leaves: isText }));
    if (!value) return;
    const bytes = unbase64(value.get('leaves'));
    if (!bytes || bytes.length % 32) return this.problem('malformed', null, 'leaves: base64 of whole hashes of 32 bytes expected');
    for (let at = 0; at < bytes.length; at += 32) this.parts.at(-1).leaves.push(bytes.slice(at, at + 32));
  }

  async takeCheckpoint(line) {
    const part = this.parts.at(-1);
    part.ended = this.line;
    const value = this.exact('checkpoint', line, shape({ checkpoint: isText }));
    if (!value) return;
    try {
      part.checkpoint = await openCheckpoint(value.get('checkpoint'), this.trust);
      if (part.checkpoint.lacking) this.report.unverifiable++;
      this.report.cosigned = undefined; // those of the last bundle count
      const { cosigned, lacking, few } = await cosigners(value.get('checkpoint'), this.trust);
      if (cosigned.length) this.report.cosigned = cosigned;
      if (lacking) this.report.unverifiable++;
      if (few) throw few;
    } catch (wrong) {
      if (!wrong.kind) throw wrong;
      this.problem(wrong.kind, null, wrong.message);
    }
  }

  async finish() {
    this.checkChains();
    this.checkOutcomes();
    this.checkExpected();
    await this.checkTrees();
    const { report } = this;
    report.outcome_unknown = this.entries.filter((e) => e.pending && !this.settled.has(e.id)).map((e) => e.id);
    this.countErased();
    report.problems.sort((a, b) => (a.bundle ?? 0) - (b.bundle ?? 0) || a.line - b.line);
    report.verdict = verdict(report);
    return report;
  }

  // --- chains ---

  checkChains() {
    const chains = new Map();
    for (const e of this.entries) {
      if (e.damaged || e.repeated) continue;
      if (!chains.has(e.chain)) chains.set(e.chain, []);
      chains.get(e.chain).push(e);
    }
    for (const chain of chains.values()) this.checkChain(chain);
  }

  checkChain(chain) {
    this.checkOrder(chain);
    const sorted = [...chain].sort(bySequence);
    const [first] = sorted;
    this.report.chains.push({ chain_id: first.chain, agent_id: first.agent, recorder: first.recorder, records: sorted.length, hash: sorted.at(-1).hash });
    this.lengths.push(sorted.length + (this.midway ? first.sequence : 0));
    this.checkGenesis(first);
    for (let i = 1; i < sorted.length; i++) {
      const e = sorted[i];
      if (e.agent !== first.agent || e.recorder !== first.recorder) {
        this.problem('foreign_record', e, `record ${quote(e.id)} is of agent ${quote(e.agent)} and recorder ${quote(e.recorder)} in a chain of ${quote(first.agent)} and ${quote(first.recorder)}`);
      }
      this.checkLink(sorted, i);
    }
    this.checkCovered(sorted);
  }

  // checkExpected names the chains that are left out, or cut short, and tells which open recorders have nothing here (EXT-33). Behind
  // what the series begins behind, a chain that is not here may have ended.
  checkExpected() {
    const name = (c) => quote([c.agent, c.recorder, c.chain]);
    const found = new Map(this.report.chains.map((c, i) => [name({ agent: c.agent_id, recorder: c.recorder, chain: c.chain_id }), this.lengths[i]]));
    const known = new Set(this.report.chains.map((c) => c.recorder));
    const silent = new Set(this.recorders.flatMap((l) => l.keys).filter((k) => !k.not_after && !known.has(k.recorder)).map((k) => k.recorder));
    if (silent.size) this.report.silent_recorders = [...silent];
    const earlier = new Set();
    for (const c of [...this.expected, ...this.recorders.flatMap((l) => l.chains)]) {
      const [what, has] = [`chain ${c.chain} of agent ${quote(c.agent)} by recorder ${quote(c.recorder)}`, found.get(name(c))];
      if (has === undefined && this.midway) earlier.add(c.chain);
      else if (has === undefined) this.absent('missing_chain', c, `${what} is left out`);
      else if (has < c.records) this.absent('missing_tail', c, `${what} has ${has} records, and had ${c.records}`);
    }
    if (earlier.size) this.report.chains_before = [...earlier];
  }

  // absent notes what is wrong with a chain, once for each: several can miss at one line.
  absent(kind, c, message) {
    if (this.report.problems.some((p) => p.kind === kind && p.chain_id === c.chain && !p.record_id)) return;
    this.report.problems.push({ kind, ...this.place(c.line || this.parts.at(-1).ended || this.line), chain_id: c.chain, sequence: 0, message });
  }

  // checkOrder compares the chain as it stands with the chain in order. The later of two records with one sequence has no place.
  checkOrder(chain) {
    const places = new Set();
    const standing = chain.filter((e) => !places.has(e.sequence) && places.add(e.sequence));
    const sorted = [...standing].sort(bySequence);
    standing.forEach((e, i) => {
      if (e !== sorted[i]) this.problem('swapped', e, `record ${quote(e.id)} has sequence ${e.sequence} and stands where its chain has ${sorted[i].sequence}`);
    });
  }

  checkGenesis(first) {
    if (first.sequence === 0) {
      if (first.prev !== genesis) this.problem('broken_link', first, `record ${quote(first.id)} is the first of its chain and names a record before it`);
      return;
    }
    if (this.midway) return; // what it follows is before all that is here
    const missing = this.unexplained(0, first.line, first.sequence);
    if (missing > 0) this.problem('missing_head', first, `the first ${missing} records of the chain are missing: it begins with sequence ${first.sequence}`);
  }

  checkLink(sorted, i) {
    const [before, e] = [sorted[i - 1], sorted[i]];
    const step = e.sequence - before.sequence;
    if (step === 0) {
      this.problem('fork', e, `records ${quote(before.id)} (${this.where(before.line)}) and ${quote(e.id)} have one chain and sequence ${e.sequence}: its recorder tells two histories`);
    } else if (step === 1) {
      if (!follows(sorted, i)) this.problem('broken_link', e, `record ${quote(e.id)} follows a record with hash ${e.prev}, but ${quote(before.id)} has hash ${before.hash}`);
    } else {
      const missing = this.unexplained(Math.min(before.line, e.line), Math.max(before.line, e.line), step - 1);
      if (missing > 0) this.problem('missing_middle', e, `${missing} records are missing before ${quote(e.id)}: sequence ${e.sequence} follows ${before.sequence}`);
    }
  }

  // checkCovered looks, from the end of a chain, for the signature that covers a record without one: that of the next record that
  // has one, of the same key, where every hash in between stands on the one before.
  checkCovered(sorted) {
    let signer = '';
    let next = null;
    for (const e of [...sorted].reverse()) {
      if (!e.covered) {
        signer = e.key;
      } else if (signer === e.key && next.sequence === e.sequence + 1 && next.prev === e.hash) {
        this.report.covered++;
      } else {
        signer = '';
        e.unsigned = true;
        this.problem('bad_signature', e, `record ${quote(e.id)} has no signature of its own, and none of a later record of its chain covers it`);
      }
      next = e;
    }
  }

  // unexplained says how many of the records that miss between two lines cannot be those on damaged lines there.
  unexplained(after, before, missing) {
    this.excuses = this.excuses.filter((line) => {
      if (missing === 0 || line <= after || line >= before) return true;
      missing--;
      return false;
    });
    this.gaps += missing;
    return missing;
  }

  // --- the tree ---

  async checkTrees() {
    let whole = true;
    let before = null;
    for (const part of this.parts) {
      if (before) await this.checkFrom(before, part);
      before = part;
      if (!part.ended) {
        this.line = part.last;
        this.problem('missing_tail', null, 'the bundle ends without a checkpoint: whatever stood behind is cut off');
      }
      if (!part.checkpoint || !(await this.checkTree(part))) whole = false;
    }
    const [first] = this.parts;
    if (first.base > 0) this.report.from = { size: first.base, root: await rootBehind(first.base, first.edge, []) };
    if (first.base > 0) this.checkBegins(first);
    if (whole) this.compare();
    if (before.checkpoint) await this.checkAllSeen(before.checkpoint);
  }

  // checkBegins wants to know what the series begins behind: a checkpoint that was kept ends there. Otherwise who exports could
  // leave the beginning out.
  checkBegins(part) {
    if (this.seen.some((seen) => seen.size === BigInt(part.base) && seen.origin === this.report.origin)) return;
    this.line = part.before + 1;
    this.problem('missing_head', null, `the bundle begins behind ${part.base} entries that are not here: verify it with the bundles before it, or under the checkpoint that the last of them ended in`);
  }

  // checkFrom holds where a bundle begins against where the one before ends.
  async checkFrom(before, part) {
    if (!before.checkpoint || !part.headed) return;
    this.line = part.before + 1;
    const { size, root } = before.checkpoint;
    if (BigInt(part.base) > size) {
      this.problem('missing_period', null, `the bundle begins at entry ${part.base}, the one before it ends at ${size}: what is between them is missing`);
    } else if (BigInt(part.base) < size) {
      this.problem('swapped', null, `the bundle begins at entry ${part.base}, the one before it ends at ${size}: they overlap, or are not in their order`);
    } else if ((await rootBehind(part.base, part.edge, [])) !== root) {
      this.problem('fork', null, `the bundle begins behind another history than that of the bundle before it: their first ${part.base} entries differ`);
    }
  }

  // checkTree tells whether the listed entries of a bundle are those of its checkpoint.
  async checkTree(part) {
    const { checkpoint } = part;
    this.report.size = checkpoint.size <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(checkpoint.size) : String(checkpoint.size);
    this.report.root = checkpoint.root;
    this.line = part.ended;
    const listed = BigInt(part.base + part.leaves.length);
    if (checkpoint.origin !== this.report.origin) this.problem('malformed', null, `the checkpoint is of log ${quote(checkpoint.origin)}, the header of ${quote(this.report.origin)}`);
    if (listed < checkpoint.size) {
      this.problem('missing_tail', null, `the checkpoint covers ${checkpoint.size} entries, the bundle lists ${listed}`);
    } else if (listed > checkpoint.size || (await rootBehind(part.base, part.edge, part.leaves)) !== checkpoint.root) {
      this.problem('root_mismatch', null, `the listed entries are not those of the checkpoint; by itself, the root of the records ${await this.rootOfRecords(part)}`);
    } else {
      return true;
    }
    return false;
  }

  async rootOfRecords(part) {
    const leaves = this.entries.filter((e) => e.line > part.before && e.line <= part.last).map((e) => e.leaf);
    const same = BigInt(part.base + leaves.length) === part.checkpoint.size && (await rootBehind(part.base, part.edge, leaves)) === part.checkpoint.root;
    return same ? 'agrees with the checkpoint, so the list was changed' : 'does not agree with the checkpoint either';
  }

  // checkAllSeen holds the series against checkpoints that were kept: a log only grows (ATK-43), and for everybody alike (ATK-44).
  async checkAllSeen(last) {
    this.line = this.parts.at(-1).ended;
    for (const seen of this.seen) {
      if (seen.origin !== last.origin) continue;
      if (seen.size > last.size) {
        this.problem('missing_tail', null, `a checkpoint of ${seen.size} entries was seen before, this one covers ${last.size}: the log was cut back`);
      } else if (seen.size < BigInt(this.parts[0].base)) {
        this.problem('missing_head', null, `a checkpoint of ${seen.size} entries was seen before, and what is here begins behind ${this.parts[0].base}: verify it with the bundles before it`);
      } else {
        await this.checkSeen(seen);
      }
    }
  }

  // checkSeen takes the bundle in which a checkpoint that was kept ends.
  async checkSeen(seen) {
    const part = this.parts.find((p) => seen.size >= BigInt(p.base) && seen.size <= BigInt(p.base + p.leaves.length));
    if (part && (await rootBehind(part.base, part.edge, part.leaves.slice(0, Number(seen.size) - part.base))) !== seen.root) {
      this.problem('fork', null, `the first ${seen.size} entries are not those of a checkpoint that was seen before: the log was rewritten, or shows different histories`);
    }
  }

  // compare holds every record against the listed entries, which the checkpoint has signed.
  compare() {
    const places = new Map();
    for (const part of this.parts) part.leaves.forEach((leaf, n) => places.set(hexOf(leaf), part.base + n));
    const found = [];
    let strangers = 0;
    for (const e of this.entries) {
      const place = places.get(hexOf(e.leaf));
      if (e.repeated) continue;
      if (place !== undefined) {
        found.push({ place, e });
        continue;
      }
      strangers++;
      if (!e.damaged && !e.unsigned) this.problem('not_in_log', e, `record ${quote(e.id)} is not in the log that the checkpoint covers: it was added, replaced or signed again`);
    }
    const sorted = found.map((f) => f.place).sort((a, b) => a - b);
    found.forEach(({ place, e }, i) => {
      if (place !== sorted[i]) this.problem('swapped', e, `record ${quote(e.id)} is entry ${place} of the log and stands in the place of entry ${sorted[i]}`);
    });
    this.checkMissing(new Set(sorted), strangers);
  }

  // checkMissing names entries without a record that no gap of a chain and no damaged line explains.
  checkMissing(found, strangers) {
    const listed = this.parts.reduce((sum, part) => sum + part.leaves.length, 0);
    const tail = listed - found.size - strangers - this.unreadable - this.gaps;
    if (tail <= 0) return;
    let place = this.parts[0].base;
    while (found.has(place)) place++;
    this.line = this.parts.at(-1).ended;
    this.problem('missing_tail', null, `${tail} records from the end of a chain, or a whole chain, are missing; the first log entry without a record is ${place}`);
  }
}

const bySequence = (a, b) => a.sequence - b.sequence;

// follows tells whether a record names one with the sequence before its own, of which a fork has several.
function follows(sorted, at) {
  const e = sorted[at];
  for (let i = at - 1; i >= 0 && sorted[i].sequence === e.sequence - 1; i--) if (sorted[i].hash === e.prev) return true;
  return false;
}

function verdict(report) {
  if (report.problems.some((p) => p.kind !== 'malformed')) return 'tampered';
  if (report.problems.length) return 'malformed';
  return report.unverifiable ? 'unverifiable' : 'ok';
}

// --- The command line of Node ---

const many = (n, what) => `${n} ${what}${n === 1 ? '' : 's'}`;

function text(report) {
  // Nothing tells whether evidence under other keys is whole, so it is not called tampered.
  const otherKeys = report.problems.length && report.problems.every((p) => p.kind === 'unknown_key');
  const out = [`${otherKeys ? 'signed by keys that are not pinned' : report.verdict}: ${many(report.records, 'record')} in ${many(report.chains.length, 'chain')} of ${report.origin}, ${report.outcome_unknown.length} without a recorded outcome`];
  if (report.covered) out.push(`  ${many(report.covered, 'record')} covered by the signature of a later one of their chain, the others by one of their own`);
  const { committed, opened, erased } = report.bodies;
  if (committed) out.push(`  ${committed === 1 ? '1 body' : `${committed} bodies`} beside the records: ${opened} opened, ${erased} erased, ${committed - opened - erased} not in this bundle`);
  out.push(...cosignedBy(report));
  if (report.unverifiable) out.push(`  ${many(report.unverifiable, 'signature')} of an algorithm that this platform lacks: nothing is known of them`);
  if (report.from) out.push(`  from entry ${report.from.size} of the log on: what is before it is not here`);
  for (const recorder of report.silent_recorders ?? []) out.push(`  recorder ${quote(recorder)} is open and has no record here`);
  for (const chain of report.chains_before ?? []) out.push(`  chain ${chain} is not here, and may have ended before: verify with the bundles before it`);
  return [...out, ...report.problems.map((p) => `  ${p.bundle ? `bundle ${p.bundle}, ` : ''}line ${p.line}: ${p.kind}: ${p.message}`)].join('\n');
}

const cosignedBy = ({ cosigned = [] }) => cosigned.map((c) => `  cosigned by ${c.witness} at ${c.time}`);

function readArguments(given) {
  const found = { bundles: [], trust: '', receipt: '', seen: [], recorders: [], witness: [], quorum: '', output: 'text' };
  for (let i = 0; i < given.length; i++) {
    const [flag, value = given[i + 1]] = given[i].startsWith('--') ? given[i].split(/=(.*)/s, 2) : [''];
    if (flag === '') found.bundles.push(given[i]);
    else if (flag === '--seen' || flag === '--recorders' || flag === '--witness') found[flag.slice(2)].push(value);
    else if (flag === '--trust' || flag === '--output' || flag === '--receipt' || flag === '--quorum') found[flag.slice(2)] = value;
    else return null;
    if (flag !== '' && !given[i].includes('=')) i++;
  }
  const all = found.receipt ? found.bundles.length < 2 && !found.seen.length && !found.recorders.length : found.bundles.length;
  return all && found.trust && ['text', 'json'].includes(found.output) && ![...found.seen, ...found.recorders, ...found.witness].includes(undefined) && /^\d{0,3}$/.test(found.quorum) ? found : null;
}

async function main(given) {
  const { createReadStream, promises } = await import('node:fs');
  const read = readArguments(given);
  if (!read) {
    console.error('usage: node verify.mjs BUNDLE... --trust TRUST [--seen CHECKPOINT]... [--recorders LIST]... [--witness KEY]... [--quorum N] [--output json]\n       node verify.mjs [RECORD] --receipt RECEIPT --trust TRUST [--witness KEY]... [--quorum N] [--output json]');
    return 2;
  }
  const files = await Promise.all([read.trust, ...read.seen, ...read.recorders].map((name) => promises.readFile(name)));
  let trust;
  const [seen, recorders] = [[], []];
  try {
    trust = await parseTrust(files[0]);
    const lists = files.splice(1 + read.seen.length);
    for (const file of files.slice(1)) seen.push(await openCheckpoint(decode(file), trust));
    for (const file of lists) recorders.push(await parseRecorders(file));
  } catch (wrong) {
    console.error(`verify.mjs: what is trusted is not usable: ${wrong.message}`);
    return 4;
  }
  try {
    await pinWitnesses(trust, read.witness, Number(read.quorum) || read.witness.length);
  } catch (wrong) {
    console.error(`verify.mjs: ${wrong.message}`);
    return 2;
  }
  if (read.receipt) return receiptOf(read, trust, promises.readFile);
  // A file is opened when it is its turn: before that nobody would hear that it is not there.
  const opened = async function* (name) {
    yield* name === '-' ? process.stdin : createReadStream(name);
  };
  const report = await verifySeries(read.bundles.map(opened), trust, { seen, recorders });
  report.unverifiable += seen.filter((checkpoint) => checkpoint.lacking).length;
  report.verdict = verdict(report);
  console.log(read.output === 'json' ? JSON.stringify(report, null, 2) : text(report));
  return { ok: 0, unverifiable: 5 }[report.verdict] ?? 4;
}

// receiptOf verifies a receipt, with the record where that is given, too.
async function receiptOf(read, trust, readFile) {
  const file = async (name) => decode(await readFile(name)).replace(/\n$/, '');
  let found;
  try {
    // Clients write metadata in forms of their own.
    found = await verifyReceipt(canonical(await readFile(read.receipt)), trust, read.bundles.length ? await file(read.bundles[0]) : undefined);
  } catch (wrong) {
    console.error(`verify.mjs: ${wrong.message}`);
    return 4;
  }
  const { verdict, record_hash, index, size, origin } = found;
  const lines = [`${verdict}: record ${record_hash} is entry ${index} of the ${size} of ${origin}`, ...cosignedBy(found)];
  console.log(read.output === 'json' ? JSON.stringify(found, null, 2) : lines.join('\n'));
  return verdict === 'ok' ? 0 : 5;
}

// isProgram tells whether Node was started with this file.
async function isProgram() {
  if (!globalThis.process?.versions?.node || !process.argv[1]) return false;
  const [{ realpathSync }, { pathToFileURL }] = await Promise.all([import('node:fs'), import('node:url')]);
  try {
    return import.meta.url === pathToFileURL(realpathSync(process.argv[1])).href;
  } catch {
    return false;
  }
}

if (await isProgram()) {
  try {
    process.exitCode = await main(process.argv.slice(2));
  } catch (wrong) {
    console.error(`verify.mjs: ${wrong.message}`);
    process.exitCode = 1;
  }
}
