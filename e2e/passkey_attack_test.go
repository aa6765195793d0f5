package e2e

import (
	"testing"

	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
)

// TestATK47_APasskeyAddsAPasskey has a program in the browser of someone who has just logged in
// with a passkey add one of its own and take out the person's: each takes a signature for
// that very thing, and nothing that was signed for something else is one.
func TestATK47_APasskeyAddsAPasskey(t *testing.T) {
	asGiven(t)
	b, w, _ := linkTown(t, "")
	w.press("header .who button", `form[action="/login/passkey"]`)
	w.press(`form[action="/login/passkey"] button`, "#waiting")
	w.do(chromedp.Navigate(b.url + "/passkeys"))
	const post = `(async (path, fields) => { const f = new FormData(); for (const [name, value] of Object.entries(fields)) f.set(name, value); return (await fetch(path, {method: "POST", body: f})).status })`
	if got := w.js(post + `("/passkeys/challenge", {})`); got != "403" {
		t.Errorf("ATK-47 a challenge for another passkey by the login alone: HTTP %s; want 403", got)
	}
	if got := w.js(post + `("/passkeys/remove", {passkey: document.querySelector("input[name=passkey]").value})`); got != "403" {
		t.Errorf("ATK-47 the passkey taken out by the login alone: HTTP %s; want 403", got)
	}
	// A signature for adding a key removes none.
	const crossed = `(async () => {
		const options = await (await fetch("/passkeys/confirm/challenge", {method: "POST", body: new FormData()})).json();
		const made = await navigator.credentials.get({publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options.publicKey)});
		const f = new FormData(); f.set("passkey", document.querySelector("input[name=passkey]").value); f.set("assertion", JSON.stringify(made.toJSON()));
		return (await fetch("/passkeys/remove", {method: "POST", body: f})).status
	})()`
	if got := w.js(crossed); got != "403" {
		t.Errorf("ATK-46 a signature for adding takes a passkey out: HTTP %s; want 403", got)
	}
	if got := w.js(`document.querySelectorAll('form[action="/passkeys/remove"]').length`); got != "1" {
		t.Fatalf("ATK-47 there are %s passkeys; want the person's own", got)
	}
	// The person's own ways.
	if _, err := chromedp.Call(w.ctx, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{Options: &webauthn.VirtualAuthenticatorOptions{
		Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: webauthn.AuthenticatorTransportUsb, HasResidentKey: true, HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true,
	}}); err != nil {
		t.Fatal(err)
	}
	w.do(chromedp.SendKeys(chromedp.CSS("#name"), "Second key"))
	w.press(`form[data-register] button`, "main li:nth-child(2)")
	w.says("AAP-A7", "Test key", "Second key")
	w.press(`main li:nth-child(1) form[action="/passkeys/remove"] button`, "main li")
	if got := w.js(`document.querySelectorAll('form[action="/passkeys/remove"]').length`); got != "1" {
		t.Errorf("AAP-A7 after one was taken out there are %s", got)
	}
}
