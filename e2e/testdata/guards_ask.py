"""Has a person approve a tool by integrations/python/powerbox.py. Prints ok."""

import os
import sys

import powerbox

asked, ran = [], []


def tell(pending):
    asked.append(pending)
    open(os.environ["ASKED"], "w").close()  # the test answers when it is there


waiting = powerbox.Gate(os.environ["GATE"], os.environ["TOKEN"], wait=60, asked=tell)
at_once = powerbox.Gate(os.environ["GATE"], os.environ["TOKEN"])


def tool(gate):
    @gate.guard("refunds", "pay")
    def pay(amount):
        ran.append(amount)
        return "paid"
    return pay


with powerbox.acting("triage"):
    try:
        tool(at_once)(amount="from Python")
        sys.exit("nobody was asked")
    except powerbox.Refused as why:
        assert why.code == "approval_required" and why.pending["approvalUrl"] in str(why), why.context
        assert '"pending"' in powerbox.refusal(why)
        first = why.pending["id"]
    assert ran == []
    assert tool(waiting)(amount="from Python") == "paid"
    assert ran == ["from Python"] and [p["id"] for p in asked] == [first], (ran, asked)
    try:
        tool(at_once)(amount="from Python")
        sys.exit("an approval was used twice")
    except powerbox.Refused as why:
        assert why.pending["id"] != first
print("ok")
