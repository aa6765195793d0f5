"""Gives an application behind examples/verifycontext the requests that stand on standard input, one JSON object a line."""

import asyncio, json, sys

sys.path.insert(0, sys.argv[1])
from verify_context import guarded

AGENT, ID = sys.argv[2:]


async def app(scope, receive, send):
    body = (await receive())["body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": json.dumps([scope["powerbox"]["holder"], body.decode()]).encode()})


async def one(guard, request):
    pieces = [request["body"][:3].encode(), request["body"][3:].encode()]
    sent = []

    async def receive():
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    async def send(message):
        sent.append(message)

    headers = [(b"powerbox-context", request["context"].encode())] if request["context"] else []
    await guard({"type": "http", "method": "POST", "path": request["path"], "headers": headers}, receive, send)
    print(json.dumps({"status": sent[0]["status"], "body": sent[1]["body"].decode()}))


guard = guarded(app, AGENT, ID)
for line in sys.stdin:
    asyncio.run(one(guard, json.loads(line)))
