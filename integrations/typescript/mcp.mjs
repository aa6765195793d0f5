// The MCP TypeScript SDK: tools of an McpServer.
import { refusal, Refused } from './powerbox.mjs';

/**
 * Guards the tools that are registered at a server after this call. agent is the caller:
 * a name, or a function of the request's extra (session, authInfo) that returns one.
 */
export function guardServer(server, held, agent) {
  if (Object.keys(server._registeredTools ?? {}).length > 0) {
    throw new TypeError('the server has tools already, which would not be guarded: call guardServer before they are registered');
  }
  server.experimental.tasks.registerToolTask = (name) => {
    throw new TypeError(`tool ${JSON.stringify(name)} runs as a task, which cannot be guarded`);
  };
  for (const method of ['registerTool', 'tool']) {
    const register = server[method].bind(server);
    server[method] = (name, ...rest) => {
      const callback = rest.pop();
      if (typeof callback !== 'function') throw new TypeError(`tool ${JSON.stringify(name)} has no callback`);
      return guardUpdates(register(name, ...rest, guarded(name, callback, held, agent)), name, held, agent);
    };
  }
  return server;
}

function guardUpdates(registered, name, held, agent) {
  const update = registered.update.bind(registered);
  registered.update = (updates) => {
    const now = updates.name ?? name;
    update(updates.callback ? { ...updates, callback: guarded(now, updates.callback, held, agent) } : updates);
  };
  return registered;
}

/** A callback gets (args, extra), or (extra) where the tool has no input. */
function guarded(name, callback, held, agent) {
  return async (...given) => {
    const extra = given.at(-1);
    const who = typeof agent === 'function' ? agent(extra) : agent;
    let decision;
    try {
      decision = await held.ask(who, name, given.length > 1 ? given[0] : {});
    } catch (why) {
      if (!(why instanceof Refused)) throw why;
      return { isError: true, content: [{ type: 'text', text: JSON.stringify(refusal(why)) }] };
    }
    let failed = true;
    try {
      const result = await callback(...given);
      failed = result?.isError === true;
      return result;
    } finally {
      await held.tell(decision, failed);
    }
  };
}
