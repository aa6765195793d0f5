#!/usr/bin/python3
"""reporter: an A2A agent on Python's standard library, which has the librarian do the work.

It knows nothing of Powerbox. What its calls go through is in the environment (http_proxy), as for every program that uses
urllib, and it passes on the trace of a request (W3C Trace Context), as every service that is traced does.

    http_proxy=http://127.0.0.1:8790 LIBRARIAN=http://powerbox.example/agents/librarian reporter.py 9001
"""

import json
import os
import sys
import urllib.request
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = int(sys.argv[1])
LIBRARIAN = os.environ["LIBRARIAN"]
CARD = {
    "name": "Reporter", "description": "Reports on what the library has", "version": "1.0.0",
    "supportedInterfaces": [{"url": f"http://127.0.0.1:{PORT}/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
    "defaultInputModes": ["application/json"], "defaultOutputModes": ["text/plain"], "capabilities": {},
    "skills": [{"id": "report", "name": "Report", "description": "Reports on one document", "tags": ["reports"]}],
}


def message(role, part):
    return {"message": {"messageId": str(uuid.uuid4()), "role": role, "parts": [part]}}


def call(url, skill, arguments, trace):
    """Calls a skill of another agent and returns its answer, or its error."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message("ROLE_USER", {"data": {"skill": skill, "arguments": arguments}})}
    headers = {"Content-Type": "application/json", "A2A-Version": "1.0", **trace}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers), timeout=30) as response:
        answer = json.load(response)
    return answer.get("error") or answer["result"]["message"]["parts"][0]


class Agent(BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(CARD if self.path == "/.well-known/agent-card.json" else {})

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        asked = request["params"]["message"]["parts"][0]["data"]
        trace = {name: self.headers[name] for name in ("traceparent", "tracestate") if self.headers[name]}
        found = call(LIBRARIAN, "fetch", asked["arguments"], trace)
        self.answer({"jsonrpc": "2.0", "id": request["id"], "result": message("ROLE_AGENT", {"text": "The librarian says: " + json.dumps(found)})})

    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", PORT), Agent).serve_forever()
