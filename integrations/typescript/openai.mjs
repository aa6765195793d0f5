// The OpenAI Agents SDK: function tools and hand-offs of an agent.
import { refusal, Refused } from './powerbox.mjs';

/** Guards an agent: its function tools, and its hand-offs, which must be handoff(agent). */
export function guardAgent(agent, held) {
  agent.tools = agent.tools.map((tool) => guardTool(tool, agent.name, held));
  agent.handoffs = agent.handoffs.map((one) => guardHandoff(one, agent.name, held));
  return agent;
}

function guardTool(tool, agent, held) {
  if (tool.type !== 'function' || typeof tool.invoke !== 'function') {
    throw new TypeError(`tool ${JSON.stringify(tool.name)} runs elsewhere, so it cannot be guarded here`);
  }
  const invoke = async (context, text, details) => {
    let decision;
    try {
      decision = await held.ask(agent, tool.name, parsed(text));
    } catch (why) {
      if (why instanceof Refused) return JSON.stringify(refusal(why));
      throw why;
    }
    let failed = true;
    try {
      const result = await tool.invoke(context, text, details);
      failed = false;
      return result;
    } finally {
      await held.tell(decision, failed);
    }
  };
  return { ...tool, invoke };
}

/** The arguments as the SDK reads them; what is no JSON is no object either. */
function parsed(text) {
  try {
    return text ? JSON.parse(text) : {};
  } catch {
    return undefined;
  }
}

function guardHandoff(handoff, agent, held) {
  if (typeof handoff.onInvokeHandoff !== 'function') {
    throw new TypeError(`want handoff(agent) in place of the agent ${JSON.stringify(handoff.name)} in handoffs`);
  }
  const invoke = handoff.onInvokeHandoff;
  return handoff.clone({
    onInvokeHandoff: async (context, text) => {
      const to = await invoke(context, text);
      await held.handOver(agent, to.name);
      return to;
    },
  });
}
