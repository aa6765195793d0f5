// Verifies a record, or all evidence, in this browser: with the verifier for auditors.
"use strict";
{
  const place = document.querySelector("[data-verify]");
  const button = place && place.querySelector("button.verify");
  const marks = { ok: "\u2713", wrong: "\u2717", unknown: "?" };

  // kinds are the findings of the verifier, in words.
  const kinds = {
    bad_erasure: t("an erasure that nothing allows"),
    bad_outcome: t("an outcome that belongs to no decision"),
    bad_signature: t("a signature that does not verify"),
    body_mismatch: t("a body that is not the one of its record"),
    broken_link: t("a record that does not follow the one before"),
    duplicate: t("a record that occurs twice"),
    foreign_record: t("a record of another log"),
    fork: t("two histories of one log"),
    hash_mismatch: t("a record that does not match its hash"),
    key_not_allowed: t("a key that may not sign this"),
    malformed: t("a line that cannot be read"),
    missing_chain: t("a chain that is missing"),
    missing_head: t("the begin of a chain is missing"),
    missing_middle: t("records within a chain are missing"),
    missing_period: t("a period is missing"),
    missing_tail: t("the end of a chain is missing"),
    not_in_log: t("a record that is not in the log"),
    not_witnessed: t("too few witnesses signed"),
    root_mismatch: t("the records do not lead to the signed root"),
    swapped: t("records that changed places"),
    two_outcomes: t("two outcomes of one decision"),
    unknown_key: t("a key that is not pinned"),
  };

  // known are the texts of the verifier's steps, which come with their values.
  const known = [
    said("The record hashes to {0}, as it states."),
    said("The record hashes to {0}, but states {1}."),
    said("The hash stands for every byte of it."),
    said("The record is signed with key {0}, which the trust file does not have."),
    said("The record has no signature of its own."),
    said("The trust file lets a later record of its chain sign for it, which a bundle shows."),
    said("The signature of the log: {0}"),
    said("The leaf of the record and {0} lead to the root {1}."),
    said("The leaf of the record and {0} do not lead to the root {1}."),
    said("It is entry {0} of the {1} of the log."),
    said("The key of {0} signed that root."),
    said("Every auditor who has this root has the same history."),
    said("The recorder {0} made it, and nothing was changed since."),
    said("This browser lacks {0}, so it cannot check the signature."),
    said("powerbox evidence verify checks it."),
    said("The {0} signature verifies with key {1}."),
    said("1 hash"),
    said("{0} hashes"),
    said("proof is not in its one form"),
  ];

  // said is a text with values as a pattern, and the text.
  function said(english) {
    const pattern = english.split(/\{\d\}/).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    return { english, pattern: new RegExp("^" + pattern.join("(.*)") + "$", "s") };
  }

  // translated is a text of the verifier in the reader's language, with its values; one that is
  // not known stays as it is.
  function translated(text) {
    for (const { english, pattern } of known) {
      const values = pattern.exec(text);
      if (values) return t(english, ...values.slice(1).map(translated));
    }
    return text;
  }

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
      say(holds === undefined ? "unknown" : holds ? "ok" : "wrong", translated(says), translated(proves));
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
    for (const p of report.problems.slice(0, 20)) say("wrong", t("Line {0}: {1}.", p.line, kinds[p.kind] || p.kind), p.kind + ": " + p.message);
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
      say("wrong", translated(problem.message), "");
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
