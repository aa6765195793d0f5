// What the drivers of the conformance cases have in common: the tools of the cases, and
// requests and replies in lines of JSON.
import readline from 'node:readline';
import { z } from 'zod';
import { Gate, refusal, Refused, Tools } from '../powerbox.mjs';

/** The schemas of the tools, by name. */
export const schemas = {
  read_file: { path: z.string() },
  delete_file: { path: z.string() },
  send: { to: z.string(), text: z.string() },
  pay: { amount: z.number(), to: z.string() },
  set_limit: { amount: z.number() },
  set_rate: { amount: z.number() },
  count: { amount: z.any() },
  tag: { tags: z.array(z.string()), meta: z.any() },
  title: { title: z.string() },
  fails: {},
  unlisted: {},
};

const results = { read_file: ({ path }) => `text of ${path}`, send: async () => 'sent', fails: () => { throw new Error('disk'); } };

export class Run {
  constructor(request) {
    this.request = request;
    this.reply = { id: request.id, ran: [], told: [], decisions: [], asked: 0 };
    const gate = new Gate({
      url: request.url, token: request.token, timeout: request.timeout_ms, wait: request.wait_ms, asked: () => { this.reply.asked++; },
    });
    this.tools = new Tools(gate, {
      target: 'tools',
      decided: (tool, d) => this.reply.decisions.push({ tool, allowed: d.allowed, id: d.id ?? '', code: d.allowed ? '' : (d.reasons?.[0]?.code ?? '') }),
    });
  }

  told(text) {
    this.reply.told.push(typeof text === 'string' ? text : JSON.stringify(text));
  }

  /** The function of a tool. */
  function(name) {
    return (given) => {
      this.reply.ran.push({ tool: name, arguments: given });
      return results[name] ? results[name](given) : 'done';
    };
  }

  /** The streaming tool of the cases. */
  watch() {
    const run = this;
    return async function* (given) {
      run.reply.ran.push({ tool: 'watch', arguments: given });
      yield 'one';
      yield 'two';
      yield 'three';
    };
  }
}

/** Answers requests with a function of a run until the input ends. */
export async function serve(run) {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const one = new Run(JSON.parse(line));
    try {
      await run(one);
    } catch (why) {
      one.told(why instanceof Refused ? refusal(why) : String(why?.stack ?? why));
    }
    process.stdout.write(`${JSON.stringify(one.reply)}\n`);
  }
}
