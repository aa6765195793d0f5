# The score of an agent from an exported bundle, from docs/reference/scores.md alone:
#   python3 score.py AGENT BUNDLE AS-OF
# It believes the bundle; who does not verifies it first.
import json, sys
from datetime import datetime, timedelta
from fractions import Fraction

agent, bundle, as_of = sys.argv[1:4]
time = lambda text: datetime.fromisoformat(text.replace("Z", "+00:00"))
as_of = time(as_of)
waiting, counts = set(), {"ACHIEVED": 0, "FAILED": 0, "PARTIAL": 0}
renewed, newest = {}, None
for line in open(bundle, encoding="utf-8"):
    record = json.loads(line)
    if "record_id" not in record or time(record["timestamp_utc"]) > as_of:
        continue
    ours, operation = record["powerbox"], record["intent"]["operation"]
    if record["agent_id"] == "powerbox" and record["action_type"] in ("key.use", "key.rotate"):
        said = record["intent"]["details"]
        if said["agent"] == agent:
            since = min(time(said["renewed"]), time(record["timestamp_utc"]))
            renewed.setdefault(said["key"], since)
            newest = said["key"]
    if record["agent_id"] != agent:
        continue
    status, decided = record.get("outcome_status"), ours.get("outcome_of")
    if decided is None:
        work = operation == "a2a.message" or not operation.startswith("a2a.")
        if record["decision"] == "ALLOW" and status == "PENDING" and work and ours.get("requester") != agent:
            waiting.add(record["record_id"])
    elif decided in waiting and status in counts:
        waiting.remove(decided)
        if record.get("outcome", {}).get("cause") not in ("caller_left", "bad_input", "not_the_agent"):
            counts[status] += 1
score, all = Fraction(1), sum(counts.values())
if all:
    score -= round(Fraction(4, 10) * (all - counts["ACHIEVED"]) / all, 4)
if newest is None or as_of - renewed[newest] > timedelta(days=90):
    score -= Fraction(1, 10)
print("%.4f" % max(score, 0))
