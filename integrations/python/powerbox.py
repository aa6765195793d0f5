"""Powerbox for Python programs: least authority for agents and their tools.

One file on the standard library; copy it. It asks the local gate (`powerbox
serve`, docs/how-to/guards.md) before something happens inside the program:

    gate = Gate("http://127.0.0.1:8700", token)

    @gate.handoffs("triage")              # a Swarm-style function: its target is
    def transfer_to_refunds():            # validated before it is returned
        return refunds_agent

    @gate.guard("files", "read_file")     # a tool: asked about with its arguments
    def read_file(path): ...

    with acting("triage"):                # whose tools run
        ...

    tools = Tools(gate, "files", "triage")  # the tools of a framework, all at once
    ToolNode([read_file], wrap_tool_call=tools.langgraph()[0])

The laws: no answer is a denial; a denial raises Refused (or returns a refusal,
with refusal=...), and nothing goes on after it; who acts is said by the program
with acting(), never by a model's arguments.
"""

import contextlib
import contextvars
import copy
import functools
import inspect
import json
import threading
import time
import urllib.error
import urllib.request

__all__ = ["Gate", "Refused", "Tools", "Unavailable", "acting", "refusal"]

_MAX_ANSWER = 1 << 20
_HANDOFF = "powerbox.handoff"

_acting = contextvars.ContextVar("powerbox_acting", default=None)


@contextlib.contextmanager
def acting(agent):
    """Say which agent acts, by its name in the gate's scopes, until the end of the block."""
    token = _acting.set(agent)
    try:
        yield
    finally:
        _acting.reset(token)


class Refused(PermissionError):
    """The gate does not allow it. str() is the text for the model.

    missing is the exact set of operations that are not within the scope, decision
    the id of the record, reasons are dicts with code and message.
    """

    def __init__(self, context):
        self.context = context
        self.missing = context.get("missing") or []
        self.reasons = context.get("reasons") or []
        self.decision = context.get("id")
        super().__init__(context.get("text") or context.get("error") or "not allowed")

    @property
    def code(self):
        return self.reasons[0].get("code", "") if self.reasons else ""

    @property
    def pending(self):
        """Where a person is asked (id, approvalUrl, expires, interval), or None.

        The same attempt, tried again after the person has approved, is allowed once.
        """
        pending = self.context.get("pending")
        return pending if isinstance(pending, dict) else None


class Unavailable(Refused):
    """The gate gave no answer, so nothing is allowed."""

    def __init__(self, why):
        super().__init__({
            "text": "Whether it is allowed cannot be told now; nothing is done without an answer.",
            "reasons": [{"code": "authorization_unavailable", "message": str(why)}], "retryable": True,
        })


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args, **kwargs):
        return None  # the token must not be taken elsewhere


def refusal(refused):
    """A refusal as a value: what a model is told in place of a result."""
    told = {
        "error": refused.code or "denied", "message": str(refused), "missing": refused.missing,
        "decision": refused.decision, "retryable": bool(refused.context.get("retryable")),
    }
    if refused.pending:
        told["pending"] = refused.pending
    return json.dumps(told)


class Gate:
    """The local gate.

    url is that of powerbox serve, token that of one of identity.guards, timeout in
    seconds. wait is how many seconds an attempt that a person has to approve waits for
    the answer; 0 raises Refused with pending at once. asked is called with pending once,
    to send the user to its approvalUrl.
    """

    def __init__(self, url, token, timeout=10, wait=0, asked=None):
        if not url.startswith(("http://", "https://")):
            raise ValueError("url: want that of powerbox serve, such as http://127.0.0.1:8700")
        if not token:
            raise ValueError("token: want that of one of identity.guards")
        self._url, self._token, self._timeout = url.rstrip("/"), token, timeout
        self._wait, self._asked = wait, asked
        # No proxy of the environment: the token is for the gate alone.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())

    def __repr__(self):
        return "Gate(%r)" % self._url

    def check(self, origin, target, skill=None, arguments=None, requires=None, purpose=None):
        """Ask whether origin may call a skill of target, or, without one, hand a task to it.

        Returns the decision's context (id, skills, ...) or raises Refused.
        """
        if not origin:
            raise Refused({"text": "who acts is not known: say so with acting(agent)", "reasons": [{"code": "caller_unknown"}]})
        properties = {}
        if skill is None:
            if requires:
                properties["requires"] = list(requires)
        elif arguments is not None:
            properties["arguments"] = arguments
        context = {"purpose": purpose} if purpose else {}
        return self._decided({
            "subject": {"type": "agent", "id": origin},
            "action": {"name": _HANDOFF if skill is None else skill, "properties": properties},
            "resource": {"type": "agent", "id": target},
            "context": context,
        })

    def _decided(self, question):
        """Ask until the answer is no "a person is asked", or the time to wait is over."""
        ends, told = time.monotonic() + self._wait, None
        while True:
            answer = self._post("evaluation", question)
            context = answer.get("context")
            context = context if isinstance(context, dict) else {}
            if answer.get("decision") is True:
                return context
            refused = Refused(context)
            if refused.pending is None:
                raise refused
            if self._asked is not None and refused.pending.get("id") != told:
                told = refused.pending.get("id")
                self._asked(refused.pending)
            interval = min(max(int(refused.pending.get("interval") or 1), 1), 60)
            if time.monotonic() + interval > ends:
                raise refused
            time.sleep(interval)

    def outcome(self, decision, failed=False):
        """Tell what became of something that was allowed."""
        self._post("outcome", {"id": decision.get("id", ""), "status": "FAILED" if failed else "ACHIEVED"})

    def handoffs(self, origin=None, requires=None, refusal=None, target=None):
        """Validate the targets of a function that hands over by returning an agent (openai/swarm).

        The function may return an agent (something with a name), a Result (something
        with an agent), or a plain value, which passes. origin is the agent whose
        function it is; None takes that of acting(). With refusal, a function of the
        Refused, its value is returned in place of raising. target tells the gate's name
        of an agent; its name as it is without.
        """
        def wrap(function):
            def decide(result):
                for agent in _agents_of(result):
                    name = target(agent) if target else _name_of(agent)
                    self.outcome(self.check(origin or _acting.get(), name, requires=requires))
                return result
            return _wrapped(function, lambda args, kwargs: None, lambda _, result: decide(result), None, refusal)
        return wrap

    def handoff(self, handoff, origin=None, requires=None, target=None):
        """Guard a hand-off of the OpenAI Agents SDK: an object with on_invoke_handoff(ctx, json).

        The agent that it returns is validated before the SDK gets it. is_enabled, where
        it is a field, still hides it from the model if the program says so. Returns the
        same object.
        """
        invoke = handoff.on_invoke_handoff

        @functools.wraps(invoke)
        async def guarded(*args, **kwargs):
            agent = await invoke(*args, **kwargs)
            name = target(agent) if target else _name_of(agent)
            decision = await _in_thread(self.check, origin or _acting.get(), name, requires=requires)
            await _in_thread(self.outcome, decision)
            return agent

        handoff.on_invoke_handoff = guarded
        return handoff

    def guard(self, target, skill=None, origin=None, refusal=None, skip=("self", "cls", "context_variables")):
        """Ask before a tool runs, with its arguments: @gate.guard("files", "read_file").

        With one name, target is the part before the first dot and skill the whole:
        @gate.guard("mail.send"). Works for functions and coroutine functions: tools of
        Swarm, the Agents SDK, LangGraph, ADK. It goes under their own decorators, next to
        the function. Arguments that JSON has no form for are refused; skip names those
        that the framework passes and no model chooses, which are not asked about.
        """
        if skill is None:
            target, skill = target.split(".", 1)[0], target

        def wrap(function):
            signature = inspect.signature(function)

            def before(args, kwargs):
                bound = signature.bind(*args, **kwargs)
                bound.apply_defaults()
                return self.check(origin or _acting.get(), target, skill, _plain(signature, bound, skip))
            return _wrapped(function, before, lambda _, result: result, self.outcome, refusal)
        return wrap

    def _post(self, path, body):
        try:
            raw = json.dumps(body, allow_nan=False).encode("utf-8")
        except (TypeError, ValueError) as why:
            raise Refused({"text": "the arguments have no form in JSON: %s" % why, "reasons": [{"code": "params"}]}) from None
        request = urllib.request.Request(self._url + "/access/v1/" + path, data=raw, method="POST", headers={
            "Authorization": "Bearer " + self._token, "Content-Type": "application/json",
        })
        try:
            with self._opener.open(request, timeout=self._timeout) as response:
                answer = response.read(_MAX_ANSWER + 1)
            if len(answer) > _MAX_ANSWER:
                raise ValueError("the answer is too large")
            parsed = json.loads(answer)
            if not isinstance(parsed, dict):
                raise ValueError("the answer is no object")
            return parsed
        except urllib.error.HTTPError as why:
            with why:
                raise Unavailable("HTTP %d" % why.code) from None
        except (OSError, ValueError) as why:
            raise Unavailable(why) from None


def _wrapped(function, before, after, tell, refused):
    """function with something before and after it, in the form that it has itself."""
    def ended(decision, failed):
        if tell is not None:
            try:
                tell(decision, failed)
            except Refused:
                pass  # what is not told is unknown, on record

    def denied(why):
        if refused is None:
            raise why
        return refused(why)

    if inspect.iscoroutinefunction(function):
        @functools.wraps(function)
        async def later(*args, **kwargs):
            try:
                decision = await _in_thread(before, args, kwargs)
            except Refused as why:
                return denied(why)
            try:
                result = await function(*args, **kwargs)
            except BaseException:
                await _in_thread(ended, decision, True)
                raise
            await _in_thread(ended, decision, False)
            try:
                return await _in_thread(after, decision, result)
            except Refused as why:
                return denied(why)
        return later

    @functools.wraps(function)
    def now(*args, **kwargs):
        try:
            decision = before(args, kwargs)
        except Refused as why:
            return denied(why)
        try:
            result = function(*args, **kwargs)
        except BaseException:
            ended(decision, True)
            raise
        ended(decision, False)
        try:
            return after(decision, result)
        except Refused as why:
            return denied(why)
    return now


async def _in_thread(function, *args, **kwargs):
    import asyncio

    return await asyncio.to_thread(function, *args, **kwargs)


def _plain(signature, bound, skip):
    """The arguments as a JSON object, those of **kwargs by their own names."""
    out = {}
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if name in skip:
            continue
        if kind is inspect.Parameter.VAR_KEYWORD:
            for own in value:
                if own in out:
                    raise Refused({"text": "argument %r is there twice" % own, "reasons": [{"code": "params"}]})
            out.update(value)
        else:
            out[name] = list(value) if kind is inspect.Parameter.VAR_POSITIONAL else value
    return out


def _agents_of(result):
    """The agents that a Swarm-style function hands over to: one, or none.

    What is no plain value is a Result, which has an agent, or an agent, or, where it
    cannot be told, both.
    """
    if result is None or isinstance(result, (str, int, float, bool, bytes, dict, list, tuple)):
        return []
    found = []
    if getattr(result, "agent", None) is not None:
        found.append(result.agent)
    if not hasattr(result, "agent") or hasattr(result, "name"):
        found.append(result)
    return found


def _name_of(agent):
    return _named(getattr(agent, "name", None))


def _named(name):
    if not isinstance(name, str) or not name:
        raise Refused({"text": "a target without a name cannot be validated", "reasons": [{"code": "agent_unknown"}]})
    return name


class Tools:
    """The tools of a framework: every call is asked about before it runs.

    target is the agent at the gate whose skills the tools are. origin is the agent that calls
    them; None takes the framework's name, or that of acting(). names maps a tool to another
    (target, skill). handoffs maps a tool that hands over to an agent's name, or to a function
    of its arguments that returns one. agents maps the framework's names of agents to those at
    the gate. decided(tool, decision) is told of each decision: the context with "allowed".
    """

    def __init__(self, gate, target, origin=None, names=None, handoffs=None, agents=None, decided=None):
        self._gate, self._target, self._origin, self._decided = gate, target, origin, decided
        self._names, self._handoffs, self._agents = names or {}, handoffs or {}, agents or {}

    def ask(self, tool, arguments, agent=None):
        """Return the decision on a call, or raise Refused. agent is the framework's name of the caller."""
        return self._tells(tool, lambda: self._asked(tool, arguments, agent))

    def hand_over(self, to, agent=None):
        """Validate a hand-off, or raise Refused."""
        self.tell(self._tells("", lambda: self._gate.check(self._acts(agent), _named(self._agents.get(to, to)))))

    def _tells(self, tool, check):
        try:
            context = check()
        except Exception as why:  # some frameworks take an error for a yes
            refused = why if isinstance(why, Refused) else Unavailable(type(why).__name__)
            self._told(tool, refused.context, False)
            raise refused from None
        self._told(tool, context, True)
        return context

    def _asked(self, tool, arguments, agent):
        origin = self._acts(agent)
        if not isinstance(arguments, dict):
            raise Refused({"text": "the arguments are no object", "reasons": [{"code": "params"}]})
        to = self._handoffs.get(tool)
        if to is not None:
            to = to(arguments) if callable(to) else to
            return self._gate.check(origin, _named(self._agents.get(to, to)))
        target, skill = self._names.get(tool, (self._target, tool))
        return self._gate.check(origin, target, skill, arguments)

    def _acts(self, agent):
        return self._origin or self._agents.get(agent, agent) or _acting.get()

    def _told(self, tool, context, allowed):
        if self._decided is not None:
            self._decided(tool, dict(context, allowed=allowed))

    def tell(self, decision, failed=False):
        """Tell the gate what became of a call. An outcome that cannot be told stays unknown on record."""
        try:
            self._gate.outcome(decision, failed)
        except Refused:
            pass

    def adk(self, name="powerbox"):
        """A plugin for the Runner of ADK: tools, and transfers by transfer_to_agent."""
        from google.adk.plugins.base_plugin import BasePlugin

        self._handoffs.setdefault("transfer_to_agent", lambda arguments: arguments.get("agent_name"))
        tools, open_calls = self, {}

        def call_of(context):
            return context.invocation_id, context.function_call_id

        async def ended(context, failed):
            decision = open_calls.pop(call_of(context), None)
            if decision is not None:
                await _in_thread(tools.tell, decision, failed)

        class Plugin(BasePlugin):
            async def before_tool_callback(self, *, tool, tool_args, tool_context):
                try:
                    decision = await _in_thread(tools.ask, tool.name, tool_args, tool_context.agent_name)
                except Refused as why:
                    return json.loads(refusal(why))
                open_calls[call_of(tool_context)] = decision
                return None

            async def after_tool_callback(self, *, tool, tool_args, tool_context, result):
                await ended(tool_context, False)

            async def on_tool_error_callback(self, *, tool, tool_args, tool_context, error):
                await ended(tool_context, True)

        return Plugin(name=name)

    def langgraph(self, agent=None):
        """The pair wrap_tool_call, awrap_tool_call of a ToolNode."""
        from langchain_core.messages import ToolMessage

        def denied(call, why):
            return ToolMessage(content=refusal(why), name=call["name"], tool_call_id=call["id"], status="error")

        def failed(result):
            return getattr(result, "status", None) == "error"

        def wrap_tool_call(request, execute):
            call = request.tool_call
            try:
                decision = self.ask(call["name"], call["args"], agent)
            except Refused as why:
                return denied(call, why)
            try:
                result = execute(request)
            except BaseException:
                self.tell(decision, True)
                raise
            self.tell(decision, failed(result))
            return result

        async def awrap_tool_call(request, execute):
            call = request.tool_call
            try:
                decision = await _in_thread(self.ask, call["name"], call["args"], agent)
            except Refused as why:
                return denied(call, why)
            try:
                result = await execute(request)
            except BaseException:
                await _in_thread(self.tell, decision, True)
                raise
            await _in_thread(self.tell, decision, failed(result))
            return result

        return wrap_tool_call, awrap_tool_call

    def crewai(self):
        """Register hooks around every tool call of every crew; the agent is known by its role."""
        from crewai.hooks import register_after_tool_call_hook, register_before_tool_call_hook

        calls = threading.local()  # both hooks of a call run on its thread

        def before(context):
            kept = None
            try:
                role = getattr(context.agent, "role", None)
                kept = self.ask(context.tool_name, context.tool_input, role.strip() if role else None)
                return None
            except Exception as why:  # CrewAI calls a tool whose hook raises
                kept = why
                return False
            finally:
                calls.open = getattr(calls, "open", []) + [kept]

        def after(context):
            kept = calls.open.pop() if getattr(calls, "open", None) else None
            if isinstance(kept, Refused):
                return refusal(kept)
            if isinstance(kept, dict):
                said = str(context.tool_result or "")
                self.tell(kept, said.startswith(("Error executing tool", "Tool execution blocked by hook")))
            return None

        register_before_tool_call_hook(before)
        register_after_tool_call_hook(after)

    def openai_agents(self, agent):
        """Guard the function tools and hand-offs of an agent of the OpenAI Agents SDK. Returns the agent."""
        own = [copy.copy(tool) for tool in agent.tools]  # another agent may have the same tool
        for tool in own:
            if getattr(tool, "on_invoke_tool", None) is None:
                raise TypeError("tool %r runs elsewhere, so it cannot be guarded here" % getattr(tool, "name", tool))
            tool.on_invoke_tool = self._invoked(tool, agent.name, tool.on_invoke_tool)
        agent.tools = own
        agent.handoffs = [copy.copy(handoff) for handoff in agent.handoffs]
        for handoff in agent.handoffs:
            if not hasattr(handoff, "on_invoke_handoff"):
                raise TypeError("want handoff(agent) in place of an agent in handoffs")
            handoff.on_invoke_handoff = self._handed(agent.name, handoff.on_invoke_handoff)
        return agent

    def _handed(self, agent, invoke):
        @functools.wraps(invoke)
        async def guarded(*args, **kwargs):
            to = await invoke(*args, **kwargs)
            await _in_thread(self.hand_over, to.name, agent)
            return to
        return guarded

    def _invoked(self, tool, agent, invoke):
        @functools.wraps(invoke)
        async def guarded(context, arguments):
            try:
                decision = await _in_thread(self.ask, tool.name, _parsed(arguments), agent)
            except Refused as why:
                return refusal(why)
            try:
                result = await invoke(context, arguments)
            except BaseException:
                await _in_thread(self.tell, decision, True)
                raise
            await _in_thread(self.tell, decision)
            return result
        return guarded

    def claude(self, agent=None):
        """hooks for ClaudeAgentOptions. The tool mcp__SERVER__TOOL is the skill TOOL of the agent SERVER.

        agent acts on the main thread. The permissions of Claude Code count for what is allowed.
        """
        from claude_agent_sdk import HookMatcher

        open_calls = {}

        async def before(data, call, context):
            try:
                parts = data["tool_name"].split("__", 2)
                if len(parts) == 3 and parts[0] == "mcp":
                    self._names.setdefault(data["tool_name"], (parts[1], parts[2]))
                who = data.get("agent_type") if data.get("agent_id") else agent
                open_calls[call] = await _in_thread(self.ask, data["tool_name"], data["tool_input"], who)
                return {}
            except Exception as why:
                said = refusal(why) if isinstance(why, Refused) else "not allowed"
                return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": said}}

        async def after(data, call, context):
            decision = open_calls.pop(call, None)
            if decision is not None:
                await _in_thread(self.tell, decision, data["hook_event_name"] == "PostToolUseFailure")
            return {}

        self._handoffs.setdefault("Task", lambda arguments: arguments.get("subagent_type"))
        self._handoffs.setdefault("Agent", self._handoffs["Task"])
        return {"PreToolUse": [HookMatcher(hooks=[before])], "PostToolUse": [HookMatcher(hooks=[after])],
                "PostToolUseFailure": [HookMatcher(hooks=[after])]}


def _parsed(text):
    """The arguments as the SDK reads them; text that is no JSON is no object either."""
    try:
        return json.loads(text) if text else {}
    except ValueError:
        return None
