// The driver on the OpenAI Agents SDK, with a scripted model.
import { Agent, handoff, Runner, setTracingDisabled, tool, Usage } from '@openai/agents';
import { z } from 'zod';
import { guardAgent } from '../openai.mjs';
import { schemas, serve } from './driver.mjs';

setTracingDisabled(true);

/** A model that answers its turns in order, and then ends. */
class Scripted {
  constructor(turns) {
    this.turns = [...turns];
  }

  #next() {
    const output = this.turns.shift() ?? [{ type: 'message', role: 'assistant', status: 'completed', content: [{ type: 'output_text', text: 'done' }] }];
    return { usage: new Usage({}), output };
  }

  async getResponse() {
    return this.#next();
  }

  async* getStreamedResponse() {
    const { output } = this.#next();
    yield { type: 'response_done', response: { id: 'response', usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 }, output } };
  }
}

const call = (n, name, text) => ({ type: 'function_call', callId: `call-${n}`, name, status: 'completed', arguments: text });

serve(async (run) => {
  const { agent: lead, to, calls, stream } = run.request;
  const tools = () => [
    ...Object.entries(schemas).map(([name, shape]) => tool({
      name, description: name, strict: false, errorFunction: null,
      parameters: { type: 'object', properties: Object.fromEntries(Object.keys(shape).map((k) => [k, {}])), required: Object.keys(shape), additionalProperties: true },
      execute: async (given) => {
        z.object(shape).parse(given);
        return run.function(name)(given);
      },
    })),
    tool({ // the SDK has no streaming tools: the parts are one result
      name: 'watch', description: 'watch', parameters: z.object({ path: z.string() }), errorFunction: null,
      execute: async (given) => {
        const parts = [];
        for await (const part of run.watch()(given)) parts.push(part);
        return parts.join(' ');
      },
    }),
  ];
  const turns = [calls.map((c, n) => call(n, c.tool, c.arguments))];
  const agents = [];
  if (to) {
    turns.unshift([call('handoff', `transfer_to_${to.replaceAll('-', '_')}`, '{}')]);
    agents.push(handoff(guardAgent(new Agent({ name: to, tools: tools() }), run.tools), { toolNameOverride: `transfer_to_${to.replaceAll('-', '_')}` }));
  }
  const runner = new Runner({ model: new Scripted(turns), tracingDisabled: true });
  const agent = guardAgent(new Agent({ name: lead, tools: tools(), handoffs: agents }), run.tools);
  const result = await runner.run(agent, 'go', { stream: stream === true, maxTurns: 4 });
  if (stream) {
    for await (const _ of result); // to its end
    await result.completed;
  }
  for (const item of result.newItems) {
    if (item.type === 'tool_call_output_item') run.told(item.output);
  }
});
