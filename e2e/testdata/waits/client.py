#!/usr/bin/python3
"""client: an A2A 1.0 client by hand on Python's standard library, which waits for the task that it was given.

It knows the protocol and nothing of Powerbox: it reads the agent's card, sends a skill with its arguments to the
interface of the binding, prints every state that the task is in, and in the end what the task made.

    client.py JSONRPC|HTTP+JSON CARD-URL BEARER SKILL ARGUMENTS
"""

import json
import sys
import time
import urllib.request
import uuid

BINDING, CARD, BEARER, SKILL, ARGUMENTS = sys.argv[1:]
OVER = {"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"}


def fetch(url, body=None):
    headers = {"Accept": "application/json", "A2A-Version": "1.0", "Authorization": "Bearer " + BEARER}
    if body is not None:
        headers["Content-Type"] = "application/json"
        body = json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=30) as response:
        return json.load(response)


card = fetch(CARD)
URL = next(i["url"] for i in card["supportedInterfaces"] if i["protocolBinding"] == BINDING).rstrip("/")


def call(method, params, path, body=None):
    if BINDING == "HTTP+JSON":
        return fetch(URL + path, body)
    answer = fetch(URL, {"jsonrpc": "2.0", "id": str(uuid.uuid4()), "method": method, "params": params})
    if "error" in answer:
        raise SystemExit(json.dumps(answer["error"]))
    return answer["result"]


message = {"message": {
    "messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"data": {"skill": SKILL, "arguments": json.loads(ARGUMENTS)}}],
}}
task = call("SendMessage", message, "/message:send", message)["task"]
state = None
while True:
    if task["status"]["state"] != state:
        state = task["status"]["state"]
        said = "".join(p.get("text", "") for p in task["status"].get("message", {}).get("parts", []))
        print(json.dumps({"task": task["id"], "state": state, "said": said}), flush=True)
        listed = call("ListTasks", {}, "/tasks")["tasks"]
        print(json.dumps({"listed": {t["id"]: t["status"]["state"] for t in listed}}), flush=True)
    if state in OVER:
        break
    time.sleep(0.2)
    task = call("GetTask", {"id": task["id"]}, "/tasks/" + task["id"])
print(json.dumps({"made": [p.get("text", p.get("data")) for a in task.get("artifacts", []) for p in a["parts"]]}), flush=True)
