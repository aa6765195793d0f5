// Passkeys, the live list and local times. Reading and denying do without.
"use strict";

function says(form, text) {
  const place = form.querySelector(".says");
  if (place) place.textContent = text;
}

async function asked(url, form) {
  const answer = await fetch(url, { method: "POST", body: new FormData(form), credentials: "same-origin" });
  if (answer.status === 401) throw new Error("Log in again first.");
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
    says(form, problem.name === "NotAllowedError" ? "The passkey did not sign. Nothing was changed." : problem.message);
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
    says(form, problem.name === "NotAllowedError" ? "No passkey was made." : problem.message);
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

const zoned = { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", timeZoneName: "short" };
// precise is for tables, in which the year is that of the title.
const precise = { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23", timeZoneName: "short" };

function localTimes(root) {
  for (const one of root.querySelectorAll("option[data-says]")) {
    one.textContent = one.dataset.says + new Date(one.value).toLocaleString([], zoned);
  }
  for (const one of root.querySelectorAll("time[datetime]")) {
    one.title = one.textContent;
    one.textContent = new Date(one.dateTime).toLocaleString([], "seconds" in one.dataset ? { ...precise, year: one.dataset.seconds ? "numeric" : undefined } : zoned);
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
    live.replaceChildren(...now.childNodes);
    localTimes(live);
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
// The answer that gives nothing has the focus, and the page stays at its top.
const first = document.querySelector("[data-focus]");
if (first) first.focus({ preventScroll: true });
