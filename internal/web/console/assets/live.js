// Adds records to the page as they come.
"use strict";
{
  const place = document.querySelector("[data-stream]");
  const says = document.querySelector("[data-says=live]");
  const body = place.querySelector("tbody");
  const pause = document.querySelector("button.pause");
  const most = 200; // rows that are kept
  let waiting = []; // while the page is paused
  let paused = false;
  let lost = null; // since when the connection is lost

  // visible shows characters that change or hide the text around them by their number.
  const visible = (text) => text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (c) => "\\u" + c.codePointAt(0).toString(16).padStart(4, "0"));
  const words = { ALLOW: [t("allowed"), "new"], DENY: [t("denied"), "risk"], ABSTAIN: [t("observed"), "quiet"] };
  const clock = (date) => date.toLocaleTimeString(locale, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

  function count(code) {
    const list = document.querySelector("#reasons");
    let item = [...list.children].find((one) => one.dataset.code === code);
    if (!item) {
      item = document.createElement("li");
      item.dataset.code = code;
      const link = item.appendChild(document.createElement("a"));
      link.href = "/admin/live?" + new URLSearchParams({ decision: "DENY", reason: code });
      link.textContent = visible(code);
      item.append(" ");
      item.appendChild(document.createElement("span")).textContent = "0";
      list.append(item);
      document.querySelector(".nothing").hidden = true;
    }
    const number = item.querySelector("span");
    number.textContent = Number(number.textContent) + 1;
  }

  function add(r) {
    if (body.querySelector(`[data-id="${CSS.escape(r.id)}"]`)) return;
    const row = document.querySelector("#row").content.firstElementChild.cloneNode(true);
    row.dataset.id = r.id;
    const time = row.querySelector("time");
    time.dateTime = r.time;
    const [word, colour] = r.waits ? [t("waits"), "first"] : words[r.decision] || [r.decision, "quiet"];
    const tag = row.querySelector(".tag");
    tag.textContent = word;
    tag.classList.add(colour);
    row.querySelector(".c").textContent = (r.requester ? visible(r.requester) : t("unnamed"));
    row.querySelector(".a").textContent = visible(r.agent);
    row.querySelector(".o").textContent = visible(r.subject);
    if (r.reason) row.querySelector(".w").appendChild(document.createElement("code")).textContent = visible(r.reason);
    if (r.grantable) {
      const give = row.querySelector(".w").appendChild(document.createElement("a"));
      give.href = "/admin/give/" + encodeURIComponent(r.id);
      give.className = "give";
      give.textContent = t("Grant");
      give.before(" ");
    }
    const link = row.querySelector(".i a");
    link.href = "/admin/evidence/" + encodeURIComponent(r.id);
    link.title = r.id;
    link.textContent = r.id.slice(0, 6) + "\u2026" + r.id.slice(-4);
    localTimes(row);
    row.classList.add("fresh");
    body.prepend(row);
    while (body.rows.length > most) body.lastElementChild.remove();
    document.querySelector(".none").hidden = true;
    if (r.decision === "DENY" && r.reason) count(r.reason);
  }

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", paused);
    pause.textContent = paused ? t("Continue") : t("Pause");
    for (const one of waiting.splice(0)) add(one);
    says.textContent = paused ? t("Paused.") : lost ? t("The connection is lost.") : t("Following.");
  });

  const source = new EventSource(place.dataset.stream);
  source.addEventListener("open", () => {
    says.textContent = lost ? t("The connection is back since {0}. Nothing was missed.", clock(new Date())) : t("Following.");
    says.classList.remove("warn");
    lost = null;
  });
  source.addEventListener("error", () => {
    lost ||= new Date();
    says.classList.add("warn");
    says.textContent = t("The connection is lost since {0}.", clock(lost)) + " " + (source.readyState === EventSource.CLOSED ? t("Reload the page, and log in again if it asks.") : t("Trying again."));
  });
  source.addEventListener("skipped", (event) => {
    says.textContent = t("{0} records came too fast, and are not shown. Search the evidence for them.", event.data);
  });
  source.addEventListener("record", (event) => {
    const record = JSON.parse(event.data);
    if (!paused) return add(record);
    waiting.push(record);
    if (waiting.length > most) waiting.shift();
    says.textContent = t("Paused. {0} new.", waiting.length);
  });
  addEventListener("pagehide", () => source.close());
}
