"""ASGI middleware that refuses calls which came past the Powerbox gateway. It needs python3-cryptography and nothing else."""

import base64, hashlib, json, time, urllib.request

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


CARDS = {("http", "GET", "/.well-known/agent-card.json"), ("http", "GET", "/.well-known/agent.json")}


def b64(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def fetch_keys(agent):
    """The keys of the agent's gateway, by kid; agent is the agent's public URL there."""
    with urllib.request.urlopen(agent + "/.well-known/jwks.json", timeout=10) as answer:
        return {k["kid"]: Ed25519PublicKey.from_public_bytes(b64(k["x"])) for k in json.load(answer)["keys"] if k.get("crv") == "Ed25519"}


def verify(compact, body, agent, agent_id, keys):
    """Returns what the gateway says of a request, or raises: for this agent, at this time, for these bytes, and nothing else."""
    head, payload, signature = compact.split(".")
    header, claims = json.loads(b64(head)), json.loads(b64(payload))
    if header["typ"] != "powerbox-context+jwt" or header["alg"] not in ("EdDSA", "Ed25519"):
        raise ValueError("this is no context")
    keys[header["kid"]].verify(b64(signature), f"{head}.{payload}".encode())
    digest = base64.urlsafe_b64encode(hashlib.sha256(body).digest()).rstrip(b"=").decode()
    if (claims["iss"], claims["aud"], claims["req"]["d"]) != (agent, agent_id, digest) or not claims["iat"] - 30 <= time.time() < claims["exp"]:
        raise ValueError("the context is for another agent, time or body")
    return claims


def guarded(app, agent, agent_id, keys=None):
    """Wraps an ASGI application; what the gateway says is in scope["powerbox"]. Cards stay open: the gateway itself reads them."""
    keys = keys or fetch_keys(agent)

    async def guard(scope, receive, send):
        if scope["type"] == "lifespan" or (scope["type"], scope.get("method"), scope["path"]) in CARDS:
            return await app(scope, receive, send)
        if scope["type"] != "http":
            raise RuntimeError("nothing comes through the gateway that is no request")
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        try:
            compact = dict(scope["headers"]).get(b"powerbox-context", b"").decode()
            scope["powerbox"] = verify(compact, body, agent, agent_id, keys)
        except (ValueError, KeyError, TypeError, InvalidSignature) as wrong:
            await send({"type": "http.response.start", "status": 401, "headers": [(b"content-type", b"text/plain")]})
            return await send({"type": "http.response.body", "body": f"come through the gateway: {wrong}".encode()})

        async def again():
            return {"type": "http.request", "body": body, "more_body": False}

        return await app(scope, again, send)

    return guard
