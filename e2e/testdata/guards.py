"""Exercises integrations/python/powerbox.py against a running gate. Prints ok."""

import asyncio
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import powerbox


class Agent:  # as in openai/swarm
    def __init__(self, name, functions=()):
        self.name, self.functions = name, list(functions)


class Result:
    def __init__(self, value="", agent=None):
        self.value, self.agent, self.context_variables = value, agent, {}


class Handoff:  # as in the OpenAI Agents SDK
    def __init__(self, agent):
        async def invoke(ctx, arguments):
            return agent
        self.on_invoke_handoff, self.is_enabled = invoke, True


def refused(function, *args, **kwargs):
    try:
        got = function(*args, **kwargs)
    except powerbox.Refused as why:
        return why
    raise AssertionError("not refused: %r" % (got,))


def swarm_turn(agent, call, arguments):
    """What Swarm does with one call of a model's: run the function, go on with the agent returned."""
    result = {f.__name__: f for f in agent.functions}[call](**arguments)
    if isinstance(result, Result):
        return result.agent or agent, result.value
    if isinstance(result, Agent):
        return result, "handed over"
    return agent, str(result)


gate = powerbox.Gate(os.environ["GATE"], os.environ["TOKEN"])
refunds, mailer = Agent("refunds"), Agent("mailer")
ran = []


@gate.handoffs("triage")
def to_refunds():
    return refunds


@gate.handoffs("triage")
def to_mailer():
    return mailer


@gate.handoffs("triage", refusal=powerbox.refusal)
def to_mailer_by_result():
    return Result(value="go", agent=mailer)


@gate.handoffs("triage")
def to_a_stranger():
    return Agent("stranger")


@gate.handoffs("triage")
def to_something_without_a_name():
    return object()


@gate.handoffs("triage", requires=["pay"])
def to_pay():
    return refunds


@gate.handoffs("triage")
def plain():
    return "no hand-off"


@gate.guard("files", "read_file")
def read_file(path, context_variables=None):
    ran.append(("read", path))
    return "text of " + path


@gate.guard("files", "delete_file", refusal=powerbox.refusal)
def delete_file(path):
    ran.append(("delete", path))


@gate.guard("mail.send")
def of_no_agent(to):
    ran.append(("mail", to))


@gate.guard("files", "read_file")
def failing(path):
    raise RuntimeError("disk")


@gate.guard("files", "read_file")
async def read_later(path):
    ran.append(("later", path))
    return path


triage = Agent("triage", [to_refunds, to_mailer, to_mailer_by_result, to_a_stranger, to_pay, plain, read_file, delete_file])

# Hand-offs of Swarm: a target outside the scope raises before it is returned.
assert swarm_turn(triage, "to_refunds", {}) == (refunds, "handed over")
why = refused(swarm_turn, triage, "to_mailer", {})
assert str(why) == "Capability scope violation: {a2a.message, mailer/mail/send}", why
assert why.missing == ["a2a.message", "mailer/mail/send"] and why.code == "outside_caller_scope" and why.decision.startswith("rec_"), vars(why)
agent, said = swarm_turn(triage, "to_mailer_by_result", {})
assert agent is triage and json.loads(said)["missing"] == why.missing, (agent, said)
assert refused(to_a_stranger).code == "agent_unknown"
assert refused(to_something_without_a_name).code == "agent_unknown"
assert refused(to_pay).missing == ["refunds/refund/pay"]
assert plain() == "no hand-off"
assert to_refunds.__name__ == "to_refunds"

# Tools, as whoever acts.
assert refused(read_file, "/a").code == "caller_unknown" and not ran
with powerbox.acting("triage"):
    assert swarm_turn(triage, "read_file", {"path": "/a"})[1] == "text of /a"
    assert json.loads(delete_file("/a"))["missing"] == ["files/files/delete"]
    assert refused(of_no_agent, "x").code == "agent_unknown"
    assert refused(read_file, object()).code == "params"
    try:
        failing("/a")
        raise AssertionError("it did not fail")
    except RuntimeError:
        pass
    assert asyncio.run(read_later("/b")) == "/b"
with powerbox.acting("mailer"):  # whom this guard does not speak for
    assert refused(read_file, "/c").code == "caller_not_spoken_for"
assert ran == [("read", "/a"), ("later", "/b")], ran

# Hand-offs of the Agents SDK.
good, bad = gate.handoff(Handoff(refunds), "triage"), gate.handoff(Handoff(mailer), "triage")
assert asyncio.run(good.on_invoke_handoff(None, "{}")) is refunds
assert refused(lambda: asyncio.run(bad.on_invoke_handoff(None, "{}"))).missing == why.missing

# No answer is a denial, and the token goes to the gate alone.
nobody = powerbox.Gate("http://127.0.0.1:9", os.environ["TOKEN"], timeout=2)
assert refused(nobody.check, "triage", "refunds").code == "authorization_unavailable"
assert refused(powerbox.Gate(os.environ["GATE"], "x" * 40).check, "triage", "refunds").code == "authorization_unavailable"
seen = []


class Lying(BaseHTTPRequestHandler):
    answers = []

    def do_POST(self):
        seen.append(self.path)
        status, headers, body = self.answers.pop(0)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST

    def log_message(self, *args):
        pass


server = HTTPServer(("127.0.0.1", 0), Lying)
threading.Thread(target=server.serve_forever, daemon=True).start()
lies = powerbox.Gate("http://127.0.0.1:%d" % server.server_port, "x" * 40)
for answer in [(302, {"Location": "/elsewhere"}, b""), (200, {}, b'{"decision":"true"}'), (200, {}, b'{"decision":1}'),
               (200, {}, b"[]"), (200, {}, b"{"), (500, {}, b'{"decision":true}'), (200, {}, b" " * (1 << 21))]:
    Lying.answers = [answer]
    refused(lies.check, "triage", "refunds")
assert "/elsewhere" not in seen, seen
server.shutdown()
assert os.environ["TOKEN"] not in repr(gate)
print("ok")
sys.exit(0)
