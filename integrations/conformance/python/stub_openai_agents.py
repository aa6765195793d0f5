"""A stub of the part of the OpenAI Agents SDK that runs tools: openai-agents 0.22 (tool.py, handoffs, run_internal).

on_invoke_tool gets the arguments as the text of the model, and parses them itself. By
default a tool that raises answers the model with an error text, within on_invoke_tool.
Calls of one turn are tasks that run at once.
"""

import asyncio
import inspect
import json

import powerbox


class FunctionTool:
    def __init__(self, name, function):
        self.name = name

        async def invoke(context, arguments):
            try:
                parsed = json.loads(arguments) if arguments else {}
                inspect.signature(function).bind(**parsed)
                result = await function(**parsed) if inspect.iscoroutinefunction(function) else await asyncio.to_thread(function, **parsed)
                return "".join(result) if inspect.isgenerator(result) else result
            except Exception as why:
                if not context.answers_errors:
                    raise
                return "An error occurred while running the tool. Error: %s" % why

        self.on_invoke_tool = invoke


class Handoff:
    def __init__(self, agent):
        async def invoke(context, arguments):
            return agent

        self.agent_name, self.tool_name, self.on_invoke_handoff = agent.name, "transfer_to_" + agent.name, invoke


class Agent:
    def __init__(self, name, tools, handoffs=()):
        self.name, self.tools, self.handoffs = name, list(tools), list(handoffs)


class ToolContext:
    answers_errors = False  # failure_error_function=None


async def turn(agent, calls):
    tools = {t.name: t for t in agent.tools}
    for name, _ in calls:
        if name not in tools:
            raise LookupError("Tool %s not found in agent %s" % (name, agent.name))
    return await asyncio.gather(*[tools[name].on_invoke_tool(ToolContext(), text) for name, text in calls])


def run(run):
    request = run.request
    tools = powerbox.Tools(run.gate, "tools", decided=run.decided)

    def agent(name, handoffs=()):
        return tools.openai_agents(Agent(name, [FunctionTool(n, f) for n, f in run.functions.items()], handoffs))

    calls = [(c["tool"], c["arguments"]) for c in request["calls"]]
    acting = agent(request["agent"], [Handoff(agent(request["to"]))] if request.get("to") else [])
    if request.get("to"):
        acting = asyncio.run(acting.handoffs[0].on_invoke_handoff(None, ""))
    for text in asyncio.run(turn(acting, calls)):
        run.told(text)
