package app_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// operate changes something as an operator, with the shared token.
func (d *door) operate(path, body string) {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, d.url+path, strings.NewReader(strings.ReplaceAll(body, "@URL", d.url)))
	if err != nil {
		d.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+d.operator)
	if got := d.do(http.DefaultClient, r); got.status != http.StatusOK {
		d.t.Fatalf("%s %s: %d %s", path, body, got.status, got.body)
	}
}

// active reports whether introspection says that a token is active.
func (d *door) active(token string) bool {
	d.t.Helper()
	got := d.post(http.DefaultClient, "/oauth/introspect", url.Values{"client_id": {"backend"}, "client_secret": {"a-secret-of-the-backend"}, "token": {token}})
	return strings.Contains(got.body, `"active":true`)
}

const exchangeGrant = "urn:ietf:params:oauth:grant-type:token-exchange"

// exchanges exchanges a token of the inspector.
func (d *door) exchanges(token string, change ...string) tokens {
	d.t.Helper()
	return d.token(append([]string{"grant_type", exchangeGrant, "subject_token", token, "subject_token_type", "urn:ietf:params:oauth:token-type:access_token"}, change...)...)
}

// TestATK100_WhatIsStoppedGetsNoToken: of a person who is frozen or removed, a client or an agent
// that is frozen, no token is active, and none is made. After a thaw the same refresh token
// counts.
func TestATK100_WhatIsStoppedGetsNoToken(t *testing.T) {
	for name, c := range map[string]struct{ path, target, thaw string }{
		"a frozen person": {"/v1/people/freeze", `"principal":"user:dev"`, "/v1/people/thaw"}, "a removed person": {"/v1/people/remove", `"principal":"user:dev"`, ""},
		"a frozen principal": {"/v1/freezes", `"target":"user:dev"`, "/v1/thaws"}, "a frozen agent": {"/v1/freezes", `"target":"agent:notes"`, "/v1/thaws"},
		"a frozen client": {"/v1/freezes", `"target":"client:@URL#inspector"`, "/v1/thaws"},
	} {
		t.Run(name, func(t *testing.T) {
			d := openDoor(t, "")
			got := d.granted("notes:read offline_access")
			code := d.code(d.dev, d.request("state", "another")).Get("code")
			if !d.active(got.Access) {
				t.Fatal("the token is not active")
			}
			d.operate(c.path, "{"+c.target+`,"reason":"test"}`)
			if d.active(got.Access) {
				t.Error("introspection says that the token is active")
			}
			d.refused("a refresh", "invalid_grant", d.token("grant_type", "refresh_token", "refresh_token", got.Refresh))
			d.refused("an exchange", "invalid_grant", d.exchanges(got.Access))
			d.refused("a code", "invalid_grant", d.redeem(code))
			d.refusedThere("an authorization request", "access_denied", d.get(d.dev, d.request("state", "a third")))
			if c.thaw == "" {
				return
			}
			d.operate(c.thaw, "{"+c.target+`,"reason":"test"}`)
			if again := d.token("grant_type", "refresh_token", "refresh_token", got.Refresh); !d.active(got.Access) || !d.may(again.Access, "read_note") {
				t.Errorf("after the thaw: %+v", again)
			}
		})
	}
}

// TestATK101_NoLimitOfAClientIsDropped: a parameter that makes a token good for less is heeded or
// refused, never ignored.
func TestATK101_NoLimitOfAClientIsDropped(t *testing.T) {
	d := openDoor(t, "")
	const detail = `[{"type":"urn:powerbox:task-capability","grant":"notes:read","operations":["read"]}]`
	got := d.granted("notes:read offline_access")
	d.refused("another audience", "invalid_target", d.exchanges(got.Access, "audience", d.url+"/agents/other"))
	d.refused("an actor token", "invalid_request", d.exchanges(got.Access, "actor_token", "x"))
	d.refused("scope and details", "invalid_request", d.exchanges(got.Access, "authorization_details", detail, "scope", "notes:read"))
	d.refused("details that the token has not", "invalid_scope", d.exchanges(got.Access, "authorization_details", strings.NewReplacer("notes:read", "notes:write", `"read"`, `"delete"`).Replace(detail)))
	d.refused("another purpose", "invalid_authorization_details", d.exchanges(got.Access, "authorization_details", strings.Replace(detail, "[{", `[{"purpose":"x",`, 1)))
	soon := noon.Add(10 * time.Minute).Format(time.RFC3339)
	if narrow := d.exchanges(got.Access, "authorization_details", strings.Replace(detail, "[{", `[{"expires":"`+soon+`",`, 1)); narrow.Scope != "notes:read/read" || narrow.Expires != 600 || !d.may(narrow.Access, "read_note") || d.may(narrow.Access, "search_notes") {
		t.Errorf("a token that is narrowed by details: %+v", narrow)
	}
	if same := d.exchanges(got.Access, "audience", d.url+"/agents/notes"); same.Access == "" {
		t.Errorf("the audience of the token: %+v", same)
	}
	d.refused("details with a refresh", "invalid_request", d.token("grant_type", "refresh_token", "refresh_token", got.Refresh, "authorization_details", detail))
	d.refused("details with a code", "invalid_request", d.redeem(d.code(d.dev, d.request("state", "another")).Get("code"), "authorization_details", detail))
	for _, empty := range []string{`"operations":[]`, `"operations":null`, `"expires":""`, `"purpose":null`} {
		d.refusedThere(empty, "invalid_authorization_details", d.get(d.dev, d.request("scope", "", "authorization_details", `[{"type":"urn:powerbox:task-capability","grant":"notes:read",`+empty+`}]`)))
	}
}

// TestAnApprovalThatNobodyCanGiveIsDenied: a rule that names the person behind alone asks no one,
// since people cannot review their own requests. The client is told so.
func TestAnApprovalThatNobodyCanGiveIsDenied(t *testing.T) {
	d := openDoor(t, "approvals: {rules: [{agent: notes, approvers: ['user:dev']}]}\n")
	got := d.get(d.dev, d.request())
	d.refusedThere("the request", "access_denied", got)
	if !strings.Contains(got.at.Query().Get("error_description"), "approvals.rules") {
		t.Errorf("the reason: %s", got.at.Query())
	}
}

// TestATK104_StrangersDoNotLearnOfTheNetworkWithin: anybody can name a client by a URL, without a
// login. Why its document was not fetched is in the log alone.
func TestATK104_StrangersDoNotLearnOfTheNetworkWithin(t *testing.T) {
	d := openDoor(t, "  client_metadata_hosts: ['*']\n")
	for n, host := range []string{"localhost:22", "10.0.0.1", "[::1]", "no-such-host.invalid", "169.254.169.254"} {
		page := d.get(d.browser(""), d.request("client_id", "https://"+host+"/page.json"))
		form := d.post(http.DefaultClient, "/oauth/token", url.Values{"client_id": {"https://" + host + "/form.json"}, "grant_type": {"authorization_code"}})
		for _, got := range []answer{page, form} {
			if got.status != http.StatusUnauthorized || !strings.Contains(got.body, "it could not be fetched") {
				t.Errorf("ATK-104 %d %s: %d %s", n, host, got.status, got.body)
			}
			for _, told := range []string{"dial", "lookup", "prohibited", "127.0.0", "10.", "no such host"} {
				if strings.Contains(got.body, told) {
					t.Errorf("ATK-104 %s: %s tells %q", host, got.body, told)
				}
			}
		}
	}
}
