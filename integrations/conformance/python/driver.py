"""The driver of the conformance cases for the adapters of powerbox.py: python3 driver.py FRAMEWORK.

The frameworks are stubs of their documented interface (stub_*.py), because the tests
run without PyPI. The adapters are those that a program uses.
"""

import importlib
import json
import sys
import threading

import powerbox


class Run:
    """One run: the tools note what they got, and the adapter what it decided."""

    def __init__(self, request):
        self.request, self.lock = request, threading.Lock()
        self.reply = {"id": request["id"], "ran": [], "told": [], "decisions": [], "asked": 0}
        self.gate = powerbox.Gate(
            request["url"], request["token"], timeout=request["timeout_ms"] / 1000, wait=request["wait_ms"] / 1000, asked=self.asked,
        )
        self.functions = self.tools()

    def asked(self, pending):
        with self.lock:
            self.reply["asked"] += 1

    def told(self, text):
        with self.lock:
            self.reply["told"].append(text if isinstance(text, str) else json.dumps(text, ensure_ascii=False))

    def decided(self, tool, decision):
        reasons = decision.get("reasons") or [{}]
        with self.lock:
            self.reply["decisions"].append({
                "tool": tool, "allowed": decision["allowed"], "id": decision.get("id") or "",
                "code": "" if decision["allowed"] else reasons[0].get("code", ""),
            })

    def ran(self, tool, **arguments):
        with self.lock:
            self.reply["ran"].append({"tool": tool, "arguments": arguments})

    def tools(self):
        """The functions of the cases, by name; send is a coroutine, watch a generator."""
        def read_file(path):
            self.ran("read_file", path=path)
            return "text of " + path

        def delete_file(path):
            self.ran("delete_file", path=path)
            return "gone"

        async def send(to, text):
            self.ran("send", to=to, text=text)
            return "sent"

        def pay(amount, to):
            self.ran("pay", amount=amount, to=to)
            return "paid"

        def set_limit(amount):
            self.ran("set_limit", amount=amount)
            return "set"

        def set_rate(amount):
            self.ran("set_rate", amount=amount)
            return "set"

        def count(amount):
            self.ran("count", amount=amount)
            return "counted"

        def tag(tags, meta):
            self.ran("tag", tags=tags, meta=meta)
            return "tagged"

        def title(title):
            self.ran("title", title=title)
            return "titled"

        def watch(path):
            self.ran("watch", path=path)
            yield from ("one", "two", "three")

        def fails():
            self.ran("fails")
            raise RuntimeError("disk")

        def unlisted():
            self.ran("unlisted")
            return "done"

        return {f.__name__: f for f in (
            read_file, delete_file, send, pay, set_limit, set_rate, count, tag, title, watch, fails, unlisted,
        )}


def main():
    framework = importlib.import_module("stub_" + sys.argv[1])
    for line in sys.stdin:
        run = Run(json.loads(line))
        try:
            framework.run(run)
        except powerbox.Refused as why:
            run.told(powerbox.refusal(why))
        except Exception as why:
            run.told("%s: %s" % (type(why).__name__, why))
        print(json.dumps(run.reply), flush=True)


if __name__ == "__main__":
    main()
