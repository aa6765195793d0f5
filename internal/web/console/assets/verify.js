// Verifies a record in this browser: with the verifier for auditors, step by step.
"use strict";
{
  const place = document.querySelector("[data-verify]");
  const button = place && place.querySelector("button.verify");
  const marks = { ok: "\u2713", wrong: "\u2717", unknown: "?" };

  async function text(url) {
    const answer = await fetch(url, { credentials: "same-origin" });
    if (!answer.ok) throw new Error(`the server answers ${answer.status} for ${url}`);
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

  async function verify() {
    const out = place.querySelector(".verified");
    const list = document.createElement("ol");
    list.className = "checks";
    const verdict = document.createElement("p");
    verdict.className = "lead";
    verdict.textContent = "Verifying\u2026";
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
      found = await steps(say);
    } catch (problem) {
      say("wrong", problem.message, "");
      found = "wrong";
    }
    out.dataset.verdict = found;
    verdict.textContent = { ok: "Verified: this record is in the log as it was signed.", unverifiable: "Not verified: this browser lacks an algorithm. The command below verifies the record." }[found] || "Not verified: a check failed.";
    button.disabled = false;
  }

  if (button) {
    button.hidden = false;
    button.addEventListener("click", verify);
  }
}
