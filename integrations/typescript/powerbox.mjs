// Powerbox for programs in TypeScript and JavaScript: least authority for agents and
// their tools. It asks the local gate (powerbox serve, docs/how-to/guards.md) before
// something happens inside the program. No answer is a denial.

const maxAnswer = 1 << 20;
const handoff = 'powerbox.handoff';

/** The gate does not allow it. */
export class Refused extends Error {
  constructor(context) {
    super(context.text || context.error || 'not allowed');
    this.name = new.target.name;
    this.context = context;
    this.code = context.reasons?.[0]?.code ?? '';
    this.missing = context.missing ?? [];
    this.decision = context.id;
    this.pending = context.pending && typeof context.pending === 'object' ? context.pending : undefined;
  }
}

/** The gate gave no answer, so nothing is allowed. */
export class Unavailable extends Refused {
  constructor(why) {
    super({
      text: 'Whether it is allowed cannot be told now; nothing is done without an answer.',
      reasons: [{ code: 'authorization_unavailable', message: why }],
      retryable: true,
    });
  }
}

const wrong = (text, code = 'params') => new Refused({ text, reasons: [{ code, message: text }] });

/** A refusal as a value: what a model is told in place of a result. */
export function refusal(refused) {
  return {
    error: refused.code || 'denied',
    message: refused.message,
    missing: refused.missing,
    ...(refused.decision ? { decision: refused.decision } : {}),
    retryable: refused.context.retryable === true,
    ...(refused.pending ? { pending: refused.pending } : {}),
  };
}

/** The local gate. */
export class Gate {
  #url;
  #token;
  #options;

  constructor({ url, token, timeout = 10_000, wait = 0, asked } = {}) {
    if (!/^https?:\/\//.test(url ?? '')) throw new TypeError('url: want that of powerbox serve, such as http://127.0.0.1:8700');
    if (!token) throw new TypeError('token: want that of one of identity.guards');
    this.#url = url.replace(/\/+$/, '');
    this.#token = token;
    this.#options = { timeout, wait, asked };
  }

  /** Returns the decision on an attempt, or throws Refused. */
  async check({ origin, target, skill, arguments: given, requires, purpose }) {
    if (!origin) throw wrong('the program does not say which agent acts', 'caller_unknown');
    if (!target) throw wrong('a target without a name cannot be validated', 'agent_unknown');
    const properties = {};
    if (skill === undefined) {
      if (requires?.length) properties.requires = requires;
    } else if (given !== undefined) {
      exact(given);
      properties.arguments = given;
    }
    return this.#decided({
      subject: { type: 'agent', id: origin },
      action: { name: skill ?? handoff, properties },
      resource: { type: 'agent', id: target },
      context: purpose ? { purpose } : {},
    });
  }

  async #decided(question) {
    const ends = performance.now() + this.#options.wait;
    for (let told; ; ) {
      const answer = await this.#post('evaluation', question);
      const context = answer.context !== null && typeof answer.context === 'object' ? answer.context : {};
      if (answer.decision === true) return context;
      const refused = new Refused(context);
      if (!refused.pending) throw refused;
      if (refused.pending.id !== told) {
        told = refused.pending.id;
        this.#options.asked?.(refused.pending);
      }
      const interval = 1000 * Math.min(Math.max(Math.trunc(refused.pending.interval) || 1, 1), 60);
      if (performance.now() + interval > ends) throw refused;
      await new Promise((done) => setTimeout(done, interval));
    }
  }

  /** Tells what became of something that was allowed. */
  async outcome(decision, failed = false) {
    await this.#post('outcome', { id: decision.id ?? '', status: failed ? 'FAILED' : 'ACHIEVED' });
  }

  async #post(path, body) {
    let text;
    try {
      text = JSON.stringify(body);
    } catch {
      throw wrong('the arguments have no form in JSON');
    }
    try {
      const response = await fetch(`${this.#url}/access/v1/${path}`, {
        method: 'POST',
        body: text,
        redirect: 'manual', // the token must not be taken elsewhere
        signal: AbortSignal.timeout(this.#options.timeout),
        headers: { Authorization: `Bearer ${this.#token}`, 'Content-Type': 'application/json' },
      });
      if (response.status !== 200) {
        await response.body?.cancel();
        throw new Error(`HTTP ${response.status}`);
      }
      const parsed = JSON.parse(await bounded(response.body));
      if (parsed === null || typeof parsed !== 'object' || Array.isArray(parsed)) throw new Error('the answer is no object');
      return parsed;
    } catch (why) {
      throw new Unavailable(why?.cause?.code ?? why?.message ?? 'no answer');
    }
  }
}

/** Reads a body up to the limit. */
async function bounded(body) {
  const chunks = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.byteLength;
    if (size > maxAnswer) throw new Error('the answer is too large');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/**
 * Refuses values that JSON or a double cannot keep. The model wrote another number than
 * the one that an unsafe integer is, and the gate must not decide on the wrong one.
 */
function exact(value, depth = 0) {
  if (depth > 100) throw wrong('the arguments are nested too deeply');
  switch (typeof value) {
    case 'number':
      if (!Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value))) {
        throw wrong('a number in the arguments is too large to be exact; send it as text');
      }
      return;
    case 'string':
    case 'boolean':
      return;
    case 'object':
      if (value === null) return;
      if (Array.isArray(value)) {
        for (const one of value) exact(one, depth + 1);
        return;
      }
      if (typeof value.toJSON === 'function') throw wrong('an argument has no plain form in JSON');
      for (const one of Object.values(value)) if (one !== undefined) exact(one, depth + 1);
      return;
    default:
      throw wrong(`an argument is a ${typeof value}, which JSON has no form for`);
  }
}

/** The tools of a framework: every call is asked about before it runs. */
export class Tools {
  #gate;
  #options;

  constructor(gate, { target, names = {}, agents = {}, decided } = {}) {
    if (!target) throw new TypeError('target: want the agent at the gate whose skills the tools are');
    this.#gate = gate;
    this.#options = { target, names, agents, decided };
  }

  /** Runs a tool that the gate allows, and tells what became of it. */
  async run(origin, tool, input, execute) {
    const decision = await this.ask(origin, tool, input);
    try {
      const result = await execute();
      await this.tell(decision);
      return result;
    } catch (why) {
      await this.tell(decision, true);
      throw why;
    }
  }

  /** Returns the decision on a call of a tool, or throws Refused. */
  async ask(origin, tool, input) {
    const { target, names } = this.#options;
    const [agent, skill] = Object.hasOwn(names, tool) ? names[tool] : [target, tool];
    return this.#told(tool, () => {
      if (input === null || typeof input !== 'object' || Array.isArray(input)) throw wrong('the arguments are no object');
      return this.#gate.check({ origin: this.#named(origin), target: agent, skill, arguments: input });
    });
  }

  /** Validates a hand-off, or throws Refused. */
  async handOver(origin, to) {
    const decision = await this.#told('', () => this.#gate.check({ origin: this.#named(origin), target: this.#named(to) }));
    await this.tell(decision);
    return decision;
  }

  /** Tells the gate what became of a call. An outcome that cannot be told stays unknown on record. */
  async tell(decision, failed = false) {
    await this.#gate.outcome(decision, failed).catch(() => {});
  }

  #named(agent) {
    return Object.hasOwn(this.#options.agents, agent) ? this.#options.agents[agent] : agent;
  }

  async #told(tool, check) {
    try {
      const decision = await check();
      this.#options.decided?.(tool, { ...decision, allowed: true });
      return decision;
    } catch (why) {
      const refused = why instanceof Refused ? why : new Unavailable(why?.name ?? 'error');
      this.#options.decided?.(tool, { ...refused.context, allowed: false });
      throw refused;
    }
  }
}

/** The refusal as a value where an error is one; other errors are thrown again. */
export function refusalOf(error) {
  if (error instanceof Refused) return refusal(error);
  throw error;
}
