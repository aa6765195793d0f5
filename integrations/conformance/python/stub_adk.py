"""A stub of the part of ADK for Python that runs tools: google-adk 1.7 and newer (flows/llm_flows/functions.py).

Plugins of the runner are asked before the callbacks of the agent. A value that
before_tool_callback returns takes the place of the tool's result. Calls of one turn
are tasks that run at once. A transfer is the tool transfer_to_agent.
"""

import asyncio
import inspect
import json
import sys
import types

import powerbox


class BasePlugin:
    def __init__(self, name):
        self.name = name


class Tool:
    def __init__(self, name, function):
        self.name, self.function = name, function


class ToolContext:
    def __init__(self, agent_name, call):
        self.agent_name, self.invocation_id, self.function_call_id = agent_name, "invocation", str(call)


for name in ("google", "google.adk", "google.adk.plugins", "google.adk.plugins.base_plugin"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["google.adk.plugins.base_plugin"].BasePlugin = BasePlugin


async def call(plugin, agent, tools, n, name, arguments):
    if name not in tools:
        raise ValueError("Function %s is not found in the tools_dict." % name)
    tool, context = tools[name], ToolContext(agent, n)
    response = await plugin.before_tool_callback(tool=tool, tool_args=arguments, tool_context=context)
    if response is None:
        try:
            response = tool.function(**arguments)
            if inspect.iscoroutine(response):
                response = await response
            elif inspect.isgenerator(response):
                response = "".join(response)
        except Exception as why:
            response = await plugin.on_tool_error_callback(tool=tool, tool_args=arguments, tool_context=context, error=why)
            if response is None:
                raise
    altered = await plugin.after_tool_callback(tool=tool, tool_args=arguments, tool_context=context, result=response)
    response = response if altered is None else altered
    return response if isinstance(response, dict) else {"result": response}


async def turn(plugin, agent, tools, calls):
    return await asyncio.gather(*[call(plugin, agent, tools, n, *c) for n, c in enumerate(calls)])


def run(run):
    request = run.request
    plugin = powerbox.Tools(run.gate, "tools", decided=run.decided).adk()
    tools = {name: Tool(name, f) for name, f in run.functions.items()}
    handed = []
    tools["transfer_to_agent"] = Tool("transfer_to_agent", handed.append)
    tools["transfer_to_agent"].function = lambda agent_name: handed.append(agent_name)
    agent = request["agent"]
    if request.get("to"):
        for response in asyncio.run(turn(plugin, agent, tools, [("transfer_to_agent", {"agent_name": request["to"]})])):
            run.told(response)
        if not handed:
            return
        agent = handed[0]
    for response in asyncio.run(turn(plugin, agent, tools, [(c["tool"], json.loads(c["arguments"])) for c in request["calls"]])):
        run.told(response)
