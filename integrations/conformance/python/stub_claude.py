"""A stub of the part of the Claude Agent SDK that calls hooks: claude-agent-sdk 0.2 (types.py, query.py).

PreToolUse hooks get the tool's name, the parsed arguments and, within a sub-agent, its
agent_id and agent_type. A permissionDecision of deny stops the call, and its reason is
the result for the model. Tools of the program are those of an MCP server in it. A
sub-agent is begun by the tool Task.
"""

import asyncio
import inspect
import json
import sys
import types

import powerbox


class HookMatcher:
    def __init__(self, matcher=None, hooks=()):
        self.matcher, self.hooks = matcher, list(hooks)


sdk = types.ModuleType("claude_agent_sdk")
sdk.HookMatcher = HookMatcher
sys.modules["claude_agent_sdk"] = sdk


async def event(hooks, name, call, data):
    for matcher in hooks.get(name, []):
        for hook in matcher.hooks:
            said = (await hook(dict(data, hook_event_name=name, session_id="s", tool_use_id=call), call, {})).get("hookSpecificOutput", {})
            if said.get("permissionDecision") == "deny":
                return said["permissionDecisionReason"]
    return None


async def use(hooks, tools, call, name, arguments, sub=None):
    if name not in tools:
        return "No such tool available: %s" % name
    data = {"tool_name": name, "tool_input": arguments}
    if sub:
        data.update(agent_id="agent-1", agent_type=sub)
    refused = await event(hooks, "PreToolUse", call, data)
    if refused is not None:
        return refused
    try:
        result = tools[name](**arguments)
        if inspect.isawaitable(result):
            result = await result
        elif inspect.isgenerator(result):
            result = "".join(result)
    except Exception as why:
        await event(hooks, "PostToolUseFailure", call, dict(data, error=str(why)))
        return "error: %s" % why
    await event(hooks, "PostToolUse", call, dict(data, tool_response=result))
    return result


def run(run):
    request = run.request
    hooks = powerbox.Tools(run.gate, "tools", decided=lambda tool, d: run.decided(tool.split("__")[-1], d)).claude(request["agent"])
    tools = {"mcp__tools__" + name: f for name, f in run.functions.items()}

    async def turn(sub):
        return await asyncio.gather(*[
            use(hooks, tools, str(n), "mcp__tools__" + c["tool"], json.loads(c["arguments"]), sub) for n, c in enumerate(request["calls"])
        ])

    async def begin(subagent_type, prompt):
        for text in await turn(subagent_type):
            run.told(text)
        return "done"

    tools["Task"] = begin
    if request.get("to"):
        run.told(asyncio.run(use(hooks, tools, "task", "Task", {"subagent_type": request["to"], "prompt": "p"})))
        return
    for text in asyncio.run(turn(None)):
        run.told(text)
