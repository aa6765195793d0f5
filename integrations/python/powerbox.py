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

The laws: no answer is a denial; a denial raises Refused (or returns a refusal,
with refusal=...), and nothing goes on after it; who acts is said by the program
with acting(), never by a model's arguments.
"""

import contextlib
import contextvars
import functools
import inspect
import json
import time
import urllib.error
import urllib.request

__all__ = ["Gate", "Refused", "Unavailable", "acting"]

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
            "reasons": [{"code": "authorization_unavailable", "message": str(why)}],
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
    name = getattr(agent, "name", None)
    if not isinstance(name, str) or not name:
        raise Refused({"text": "a target without a name cannot be validated", "reasons": [{"code": "agent_unknown"}]})
    return name
