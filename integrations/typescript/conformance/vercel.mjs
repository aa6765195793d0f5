// The driver on the Vercel AI SDK, with the SDK's own mock model.
import { generateText, simulateReadableStream, stepCountIs, streamText, tool } from 'ai';
import { MockLanguageModelV3 } from 'ai/test';
import { z } from 'zod';
import { refusalOf } from '../powerbox.mjs';
import { guardTools } from '../vercel.mjs';
import { schemas, serve } from './driver.mjs';

const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
const finish = (unified) => ({ finishReason: { unified, raw: undefined }, usage });

/** A model that makes the calls in its first turn, and ends in its second. */
function model(calls) {
  let turn = 0;
  const content = () => (turn++ === 0
    ? calls.map((c, n) => ({ type: 'tool-call', toolCallId: `call-${n}`, toolName: c.tool, input: c.arguments }))
    : [{ type: 'text', text: 'done' }]);
  return new MockLanguageModelV3({
    doGenerate: async () => {
      const first = turn === 0;
      return { content: content(), ...finish(first ? 'tool-calls' : 'stop'), warnings: [] };
    },
    doStream: async () => {
      const first = turn === 0;
      const parts = content().flatMap((p) => (p.type === 'text'
        ? [{ type: 'text-start', id: 't' }, { type: 'text-delta', id: 't', delta: p.text }, { type: 'text-end', id: 't' }]
        : [p]));
      return { stream: simulateReadableStream({ chunks: [{ type: 'stream-start', warnings: [] }, ...parts, { type: 'finish', ...finish(first ? 'tool-calls' : 'stop') }] }) };
    },
  });
}

serve(async (run) => {
  const { agent, to, calls, stream } = run.request;
  const tools = Object.fromEntries(Object.entries(schemas).map(([name, shape]) => [name, tool({
    inputSchema: z.object(shape), execute: run.function(name),
  })]));
  tools.watch = tool({ inputSchema: z.object({ path: z.string() }), execute: run.watch() });
  if (to) {
    try {
      await run.tools.handOver(agent, to); // the SDK has no hand-offs: the program begins the other agent
    } catch (why) {
      run.told(refusalOf(why));
      return;
    }
  }
  const guarded = guardTools(tools, run.tools, to ?? agent);
  const settings = { model: model(calls), tools: guarded, prompt: 'go', stopWhen: stepCountIs(2), maxRetries: 0 };
  const parts = [];
  const streaming = stream || calls.some((c) => c.tool === 'watch'); // parts of a tool are seen in a stream
  if (streaming) {
    for await (const part of streamText({ ...settings, onError() {} }).fullStream) parts.push(part);
  } else {
    for (const step of (await generateText(settings)).steps) parts.push(...step.content);
  }
  for (const part of parts) {
    if (part.type === 'tool-result') run.told(part.output);
    if (part.type === 'tool-error') run.told(String(part.error?.message ?? part.error));
  }
});
