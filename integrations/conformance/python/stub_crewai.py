"""A stub of the part of CrewAI that runs tools: crewai 1.15 (crew_agent_executor.py, hooks/tool_hooks.py).

Hooks are global. A before-hook blocks a call by returning False. What it raises is
swallowed, and the call goes ahead. After-hooks run for blocked calls too, and can
replace the result. Several calls of one turn run in threads.
"""

import asyncio
import concurrent.futures
import inspect
import json
import sys
import types

import powerbox

before_hooks, after_hooks = [], []


class ToolCallHookContext:
    def __init__(self, tool_name, tool_input, agent, tool_result=None):
        self.tool_name, self.tool_input, self.tool, self.agent = tool_name, tool_input, None, agent
        self.task = self.crew = None
        self.tool_result = self.raw_tool_result = tool_result


class Agent:
    def __init__(self, role):
        self.role, self.verbose = role, False


def blocked(context):
    for hook in before_hooks:
        try:
            if hook(context) is False:
                return True
        except Exception:
            pass
    return False


def execute(agent, functions, name, arguments):
    if name not in functions:
        result = "Tool not found"
    elif blocked(ToolCallHookContext(name, arguments or {}, agent)):
        result = "Tool execution blocked by hook. Tool: %s" % name
    else:
        try:
            result = functions[name](**(arguments or {}))
            if inspect.iscoroutine(result):
                result = asyncio.run(result)
            elif inspect.isgenerator(result):
                result = "".join(result)
        except Exception as why:
            result = "Error executing tool: %s" % why
    context = ToolCallHookContext(name, arguments or {}, agent, result)
    for hook in after_hooks:
        said = hook(context)
        if isinstance(said, str):
            context.tool_result = said
    return context.tool_result


hooks = types.ModuleType("crewai.hooks")
hooks.register_before_tool_call_hook = before_hooks.append
hooks.register_after_tool_call_hook = after_hooks.append
sys.modules["crewai"], sys.modules["crewai.hooks"] = types.ModuleType("crewai"), hooks


def run(run):
    before_hooks.clear()
    after_hooks.clear()
    powerbox.Tools(run.gate, "tools", handoffs={"Delegate work to coworker": lambda a: a["coworker"]}, decided=run.decided).crewai()
    request = run.request

    def delegate(task, context, coworker):
        return turn(Agent(coworker))

    functions = dict(run.functions, **{"Delegate work to coworker": delegate})

    def turn(agent):
        calls = [(c["tool"], json.loads(c["arguments"])) for c in request["calls"]]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            for text in pool.map(lambda c: execute(agent, functions, *c), calls):
                run.told(text)
        return "done"

    lead = Agent(request["agent"])
    if request.get("to"):
        run.told(execute(lead, functions, "Delegate work to coworker", {"task": "t", "context": "c", "coworker": request["to"]}))
    else:
        turn(lead)
