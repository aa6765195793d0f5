// Verifies a record, or all evidence, in this browser: with the verifier for auditors.
"use strict";
{
  const place = document.querySelector("[data-verify]");
  const button = place && place.querySelector("button.verify");
  const marks = { ok: "\u2713", wrong: "\u2717", unknown: "?" };

  async function text(url) {
    const answer = await fetch(url, { credentials: "same-origin" });
    if (!answer.ok) throw new Error(t("the server answers {0} for {1}", answer.status, url));
    return answer.text();
  }

  // steps checks one thing after the other, and says of each what it proves. It ends at
  // the first that is wrong.
  async function steps(say) {
    const [verifier, stored, proof, pinned] = await Promise.all([import("/admin/evidence/verify.mjs"), text(place.dataset.verify + "/record.json"), text(place.dataset.verify + "/proof.txt"), text("/admin/evidence/trust.json")]);
    const trust = await verifier.parseTrust(pinned);
    for await (const { holds, says, proves } of verifier.recordSteps(stored, proof, trust)) {
      say(holds === undefined ? "unknown" : holds ? "ok" : "wrong", says, proves);
      if (holds === false) return "wrong";
    }
    return verifier.verifyRecord(stored, proof, trust); // it is the judge
  }

  // all verifies the bundle as it arrives, and shows how far it is.
  async function all(say, out) {
    const [verifier, pinned] = await Promise.all([import("/admin/evidence/verify.mjs"), text("/admin/evidence/trust.json")]);
    const trust = await verifier.parseTrust(pinned);
    const answer = await fetch(place.dataset.bundle, { credentials: "same-origin" });
    if (!answer.ok) throw new Error(t("the server answers {0} for {1}", answer.status, place.dataset.bundle));
    const bar = document.createElement("progress");
    bar.max = Math.max(1, Number(place.dataset.size));
    bar.value = 0;
    bar.setAttribute("aria-label", t("Records that were read"));
    out.append(bar);
    const counted = new TransformStream({
      transform(chunk, to) {
        for (const byte of chunk) if (byte === 10) bar.value++;
        to.enqueue(chunk);
      },
    });
    const report = await verifier.verify(answer.body.pipeThrough(counted), trust);
    bar.remove();
    const fine = report.verdict === "ok";
    say(fine ? "ok" : report.verdict === "unverifiable" ? "unknown" : "wrong", t("{0} records in {1} chains, {2} entries of {3}.", report.records, report.chains.length, report.size, report.origin), fine ? t("None is missing or changed, and the key of the log signed their root.") : "");
    for (const p of report.problems.slice(0, 20)) say("wrong", t("Line {0}: {1}: {2}", p.line, p.kind, p.message), "");
    return report.verdict;
  }

  async function verify() {
    const out = place.querySelector(".verified");
    const list = document.createElement("ol");
    list.className = "checks";
    const verdict = document.createElement("p");
    verdict.className = "lead";
    verdict.textContent = t("Verifying") + "\u2026";
    out.replaceChildren(verdict, list);
    button.disabled = true;
    const say = (kind, what, proves) => {
      const item = list.appendChild(document.createElement("li"));
      item.className = kind;
      const mark = item.appendChild(document.createElement("span"));
      mark.className = "mark";
      mark.textContent = marks[kind];
      item.append(" " + what + " ");
      if (!proves) return;
      const why = item.appendChild(document.createElement("span"));
      why.className = "dim";
      why.textContent = proves;
    };
    let found;
    try {
      found = await (place.dataset.bundle ? all(say, out) : steps(say));
    } catch (problem) {
      say("wrong", problem.message, "");
      found = "wrong";
    }
    out.dataset.verdict = found;
    verdict.textContent = { ok: place.dataset.bundle ? t("Verified: the log is whole.") : t("Verified: this record is in the log as it was signed."), unverifiable: t("Not verified: this browser lacks an algorithm. The command below has it.") }[found] || t("Not verified: a check failed.");
    button.disabled = false;
  }

  if (button) {
    button.hidden = false;
    button.addEventListener("click", verify);
  }
}
