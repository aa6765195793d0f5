"""A stub of the part of LangGraph that runs tools: langgraph 1.2 (langgraph-prebuilt 1.1, tool_node.py).

A ToolNode runs the calls of one turn at once, in threads or, in an async graph, as
tasks. wrap_tool_call gets a request with the parsed arguments, and execute, which
turns the exception of a tool into an error message for the model.
"""

import asyncio
import concurrent.futures
import inspect
import json
import sys
import types

import powerbox


class ToolMessage:
    def __init__(self, content, name, tool_call_id, status="success"):
        self.content, self.name, self.tool_call_id, self.status = content, name, tool_call_id, status


class ToolCallRequest:
    def __init__(self, tool_call, tool):
        self.tool_call, self.tool, self.state, self.runtime = tool_call, tool, {}, None


class ToolNode:
    def __init__(self, tools, wrap_tool_call, awrap_tool_call):
        self.tools, self.wrap, self.awrap = tools, wrap_tool_call, awrap_tool_call

    def _message(self, call, content, status="success"):
        return ToolMessage(content, call["name"], call["id"], status)

    def _execute(self, request):
        call = request.tool_call
        if request.tool is None:
            return self._message(call, "Error: %s is not a valid tool" % call["name"], "error")
        try:
            return self._message(call, collected(request.tool(**call["args"])))
        except Exception as why:
            return self._message(call, "Error: %r" % why, "error")

    async def _aexecute(self, request):
        if not inspect.iscoroutinefunction(request.tool):
            return await asyncio.to_thread(self._execute, request)
        try:
            return self._message(request.tool_call, await request.tool(**request.tool_call["args"]))
        except Exception as why:
            return self._message(request.tool_call, "Error: %r" % why, "error")

    def invoke(self, calls):
        with concurrent.futures.ThreadPoolExecutor() as pool:
            return list(pool.map(lambda c: self.wrap(ToolCallRequest(c, self.tools.get(c["name"])), self._execute), calls))

    async def ainvoke(self, calls):
        return await asyncio.gather(*[self.awrap(ToolCallRequest(c, self.tools.get(c["name"])), self._aexecute) for c in calls])


def collected(result):
    return "".join(result) if inspect.isgenerator(result) else result


core = types.ModuleType("langchain_core.messages")
core.ToolMessage = ToolMessage
sys.modules["langchain_core"], sys.modules["langchain_core.messages"] = types.ModuleType("langchain_core"), core


def run(run):
    request = run.request

    def node(agent):
        tools = powerbox.Tools(run.gate, "tools", agent, handoffs={"transfer": lambda a: a["to"]}, decided=run.decided)
        return ToolNode(dict(run.functions, transfer=lambda to: "handed to " + to), *tools.langgraph())

    agent = request["agent"]
    if request.get("to"):  # a hand-off in LangGraph is a tool that returns where the graph continues
        said = node(agent).invoke([{"name": "transfer", "args": {"to": request["to"]}, "id": "t"}])[0]
        run.told(said.content)
        if said.status == "error":
            return
        agent = request["to"]
    calls = [{"name": c["tool"], "args": json.loads(c["arguments"]), "id": str(n)} for n, c in enumerate(request["calls"])]
    wants_async = request.get("stream") or any(inspect.iscoroutinefunction(run.functions.get(c["name"])) for c in calls)
    for message in asyncio.run(node(agent).ainvoke(calls)) if wants_async else node(agent).invoke(calls):
        run.told(message.content)
