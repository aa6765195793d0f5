// The Vercel AI SDK: tools for generateText, streamText and agents.
import { refusalOf } from './powerbox.mjs';

const generator = Object.getPrototypeOf(async function* () {}).constructor;

/**
 * Returns the tools of an agent, each asked about before it runs. A refusal is the result
 * for the model.
 */
export function guardTools(tools, held, agent) {
  const guarded = {};
  for (const [name, tool] of Object.entries(tools)) {
    if (typeof tool.execute !== 'function') {
      throw new TypeError(`tool ${JSON.stringify(name)} has no execute, so it runs elsewhere and cannot be guarded here`);
    }
    guarded[name] = { ...tool, execute: tool.execute instanceof generator ? streamed(name, tool, held, agent) : once(name, tool, held, agent) };
  }
  return guarded;
}

function once(name, tool, held, agent) {
  return async (input, options) => {
    try {
      return await held.run(agent, name, input, () => last(tool.execute(input, options)));
    } catch (why) {
      return refusalOf(why);
    }
  };
}

/** The result of a function; of one that returns an iterable, the last value, as the SDK has it. */
async function last(result) {
  const value = await result;
  if (typeof value?.[Symbol.asyncIterator] !== 'function') return value;
  let final;
  for await (const one of value) final = one;
  return final;
}

function streamed(name, tool, held, agent) {
  return async function* (input, options) {
    let decision;
    try {
      decision = await held.ask(agent, name, input);
    } catch (why) {
      yield refusalOf(why);
      return;
    }
    let failed = true;
    try {
      yield* tool.execute(input, options);
      failed = false;
    } finally {
      await held.tell(decision, failed);
    }
  };
}
