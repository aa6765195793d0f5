// Passkeys, the live list, local times, and what the Approve button says. Reading and
// denying do without.
"use strict";

// t is a text in the reader's language: texts has those that the server sent for it. {0}
// and {1} stand for values.
const spoken = document.documentElement.lang;
const t = (english, ...values) => ((typeof texts === "object" && texts[english]) || english).replace(/\{(\d)\}/g, (all, n) => values[n]);
// Times are written as the browser does for the language of the page.
const locale = navigator.languages.find((one) => one.split("-")[0] === spoken) ?? spoken;

function says(form, text) {
  const place = form.querySelector(".says");
  if (place) place.textContent = text;
}

async function asked(url, form) {
  const answer = await fetch(url, { method: "POST", body: new FormData(form), credentials: "same-origin" });
  if (answer.status === 401) throw new Error(t("Log in again first."));
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return (await answer.json()).publicKey;
}

// sign has the person's passkey sign what the form says, and then sends it.
async function sign(form) {
  try {
    says(form, "");
    const options = PublicKeyCredential.parseRequestOptionsFromJSON(await asked(form.dataset.passkey, form));
    const made = await navigator.credentials.get({ publicKey: options });
    form.elements.assertion.value = JSON.stringify(made.toJSON());
    form.submit();
  } catch (problem) {
    says(form, problem.name === "NotAllowedError" ? t("The passkey did not sign. Nothing was changed.") : problem.message);
  }
}

async function register(form) {
  try {
    says(form, "");
    if (form.dataset.confirm) { // a passkey that the person has agrees to another
      const agreed = await navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(await asked(form.dataset.confirm, form)) });
      form.elements.assertion.value = JSON.stringify(agreed.toJSON());
    }
    const options = PublicKeyCredential.parseCreationOptionsFromJSON(await asked(form.dataset.register, form));
    const made = await navigator.credentials.create({ publicKey: options });
    form.elements.credential.value = JSON.stringify(made.toJSON());
    form.submit();
  } catch (problem) {
    says(form, problem.name === "NotAllowedError" ? t("No passkey was made.") : problem.message);
  }
}

function needsPasskey(form) {
  if (!form.dataset.only && !form.querySelector("select")) return true;
  if ("needsPasskey" in form.dataset) return true;
  return form.querySelector("input[data-needs-passkey]:checked, option[data-needs-passkey]:checked") !== null;
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.dataset.register) {
    event.preventDefault();
    register(form);
    return;
  }
  if (!form.dataset.passkey) return;
  if (form.dataset.only) {
    const button = event.submitter;
    if (!button || button.value !== form.dataset.only) return;
    if (!needsPasskey(form)) return;
    // What a script sends does not have the button that was pressed.
    let said = form.querySelector("input[name=answer]");
    if (!said) {
      said = document.createElement("input");
      said.type = "hidden";
      said.name = "answer";
      form.append(said);
    }
    said.value = button.value;
    event.preventDefault();
    sign(form).finally(() => said.remove());
    return;
  }
  if (!needsPasskey(form)) return;
  event.preventDefault();
  sign(form);
});

const zoned = { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZoneName: "short" };
// precise is for tables, in which the year is that of the title.
const precise = { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23", timeZoneName: "short" };

function localTimes(root) {
  for (const one of root.querySelectorAll("option[data-says]")) {
    one.textContent = one.dataset.says + new Date(one.value).toLocaleString(locale, zoned);
  }
  for (const one of root.querySelectorAll("time[datetime]:not([data-left])")) {
    one.title = one.textContent;
    one.textContent = new Date(one.dateTime).toLocaleString(locale, "seconds" in one.dataset ? { ...precise, year: one.dataset.seconds ? "numeric" : undefined } : zoned);
  }
}

// left counts down to the ends of requests.
function left() {
  for (const one of document.querySelectorAll("time[data-left]")) {
    const end = new Date(one.dateTime), seconds = Math.floor((end - Date.now()) / 1000);
    one.title = end.toLocaleString(locale, zoned);
    one.classList.toggle("soon", seconds < 120);
    const two = (n) => String(n).padStart(2, "0");
    if (seconds <= 0) one.textContent = t("its time is over");
    else if (seconds < 3600) one.textContent = t("within {0} min", Math.floor(seconds / 60) + ":" + two(seconds % 60));
    else if (seconds < 172800) one.textContent = t("within {0} h {1} min", Math.floor(seconds / 3600), two(Math.floor(seconds / 60) % 60));
    else one.textContent = t("within {0} days", Math.floor(seconds / 86400));
  }
}

const live = document.querySelector("[data-live]");
let shown = live && live.innerHTML; // as the server wrote it

// news loads what waits again, and nothing else of the page: whoever types a code
// beside it is not interrupted, and what is as it was stays where it is. The answer
// is parsed into a document that runs nothing.
function news() {
  const page = new XMLHttpRequest();
  page.responseType = "document";
  page.onload = () => {
    const now = page.status === 200 && page.response && page.response.querySelector("[data-live]");
    if (!now) return location.reload(); // nobody is logged in any more
    if (now.innerHTML === shown) return;
    shown = now.innerHTML;
    const ticked = new Set([...live.querySelectorAll("input[name=deny]:checked")].map((one) => one.value));
    const at = live.contains(document.activeElement) && document.activeElement.getAttribute("href");
    live.replaceChildren(...now.childNodes);
    for (const one of live.querySelectorAll("input[name=deny]")) one.checked = ticked.has(one.value);
    if (at) [...live.querySelectorAll("a")].find((one) => one.getAttribute("href") === at)?.focus({ preventScroll: true });
    document.title = page.response.title;
    const total = document.querySelector("#total"), fresh = page.response.querySelector("#total");
    if (total && fresh) total.textContent = fresh.textContent;
    localTimes(live);
    left();
  };
  page.open("GET", location.href);
  page.send();
}

if (live) {
  const source = new EventSource(live.dataset.live);
  source.addEventListener("now", news); // something may have come before it was followed
  source.addEventListener("changed", news);
  addEventListener("pagehide", () => source.close());
}
localTimes(document);
left();
if (document.querySelector("time[data-left]")) setInterval(left, 1000);

// tells writes on the button what its answer gives, as the form stands now.
function tells(form) {
  const button = form.querySelector("button[data-tells]");
  if (!button) return;
  button.dataset.plain ??= button.textContent;
  const all = [...form.querySelectorAll(".ask")].filter((ask) => ask.querySelector(".pick input"));
  const chosen = all.filter((ask) => ask.querySelector(".pick input:checked"));
  const until = form.querySelector("select[name=until] option:checked")?.dataset.short;
  if (!chosen.length) {
    button.textContent = button.dataset.plain;
    return;
  }
  const parts = all.length > 1 ? [t("{0} of {1}", chosen.length, all.length)] : [];
  if (chosen.length === 1) parts.push(...gives(chosen[0]));
  if (until) parts.push(until);
  button.textContent = t("Approve: {0}", parts.join(", "));
}

// gives is one capability with its limits.
function gives(ask) {
  const parts = [];
  for (const one of ask.querySelectorAll("input[data-side]")) {
    if (one.value.trim()) parts.push(one.dataset.of + " " + one.dataset.side + " " + amount(one.value.trim(), one.dataset.money));
  }
  const operations = [...ask.querySelectorAll(".pick input[name^='op.']:checked")].map((one) => one.value);
  const uses = ask.querySelector(".pick input").dataset.uses;
  if (operations.length) parts.unshift(operations.join(" " + t("and") + " "));
  else if (!parts.length || parts.join(", ").length > 80) parts.splice(0, parts.length, ask.dataset.says);
  const offered = ask.querySelectorAll("input[data-of]:not([data-side])"), taken = [...offered].filter((one) => one.checked);
  if (taken.length < offered.length) parts.push(t("{0} of {1} values", taken.length, offered.length));
  if (uses) parts.push(uses === "1" ? t("once") : t("{0} times", uses));
  return parts;
}

// amount writes money as the server does; any other number stays as it was typed.
// money is how the server writes an amount of nothing.
function amount(number, money) {
  if (!money || !/^[0-9]+(\.[0-9]+)?$/.test(number)) return number;
  const [group, point] = spoken === "de" ? [".", ","] : [",", "."];
  const [whole, part] = number.split(".");
  return money.replace("0", () => whole.replace(/\B(?=(\d{3})+$)/g, group) + (part === undefined ? "" : point + part.padEnd(2, "0")));
}

// keeps has what a person chose outlast another login: in this tab alone, for this person
// and this very page. A request that has changed since has another "seen".
function keeps(form) {
  const place = ["chosen", document.querySelector(".who span")?.textContent, location.pathname, location.search, form.elements.seen?.value].join("\n");
  for (const link of form.querySelectorAll("a[href^='/login?next=']")) {
    link.addEventListener("click", () => {
      const inputs = [...form.elements].filter((one) => one.name && one.type !== "hidden" && one.type !== "submit");
      sessionStorage.setItem(place, JSON.stringify(inputs.map((one) => [one.name, one.value, one.checked === true])));
    });
  }
  const kept = sessionStorage.getItem(place);
  sessionStorage.removeItem(place);
  for (const [name, value, checked] of kept ? JSON.parse(kept) : []) {
    const all = [...form.elements].filter((one) => one.name === name);
    const box = all.find((one) => (one.type === "checkbox" || one.type === "radio") && one.value === value);
    if (box) box.checked = checked;
    else if (all.length === 1 && all[0].type !== "checkbox") all[0].value = value;
  }
}

for (const form of document.querySelectorAll("#answer")) {
  keeps(form);
  form.addEventListener("input", () => tells(form));
  tells(form);
}

// Keys of the list: they move, open and choose. None approves or denies.
const keys = document.querySelector("#keys");
document.querySelector(".keys-hint")?.removeAttribute("hidden");
document.addEventListener("keydown", (event) => {
  if (!keys || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input:not([type=checkbox]), select, textarea, dialog")) return;
  const links = [...document.querySelectorAll(".waits a")];
  const at = links.findIndex((one) => one.closest(".waits").contains(document.activeElement));
  if (event.key === "?") keys.showModal();
  else if (event.key === "j") links[Math.min(at + 1, links.length - 1)]?.focus();
  else if (event.key === "k") links[Math.max(at - 1, 0)]?.focus();
  else if (event.key === "x" && at >= 0) links[at].closest(".waits").querySelector("input").click();
  else if (event.key === "Enter" && at >= 0 && event.target.type === "checkbox") links[at].click();
  else return;
  event.preventDefault();
});
// The answer that gives nothing has the focus, and the page stays at its top.
const first = document.querySelector("[data-focus]");
if (first) first.focus({ preventScroll: true });
