package e2e

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// onRecord is what the record of an execution says of token, grant and arguments.
type onRecord struct {
	Digest string `json:"arguments_digest"`
	Grant  string `json:"grant"`
	Token  string `json:"jti"`
}

// said is what a record says under intent.details.
func (b *bank) said(id string) (out onRecord) {
	b.t.Helper()
	var record struct {
		Intent struct {
			Details onRecord `json:"details"`
		} `json:"intent"`
	}
	if err := json.Unmarshal(b.operator(http.MethodGet, "/v1/records/"+id, nil), &record); err != nil {
		b.t.Fatal(err)
	}
	return record.Intent.Details
}

// sent holds arguments against the digest of a record, as someone does who has the
// key of that record and nothing of ours.
func (b *bank) sent(id, arguments string) bool {
	b.t.Helper()
	var kept struct {
		Key []byte `json:"key"`
	}
	if err := json.Unmarshal(b.operator(http.MethodGet, "/v1/records/"+id+"/arguments-key", nil), &kept); err != nil || len(kept.Key) != 32 {
		b.t.Fatalf("the key of %s: %v, %d bytes", id, err, len(kept.Key))
	}
	mac := hmac.New(sha256.New, kept.Key)
	mac.Write([]byte("powerbox-evidence-body/v1\n" + arguments))
	return hex.EncodeToString(mac.Sum(nil)) == b.said(id).Digest
}

// AAP-Z4: the record of each execution says by which token and under which grant it
// was, and which arguments came, byte for byte: of one that was denied, of each part
// of a batch, of what continues as a job or a stream, and of what became of it.
func TestAAPZ4_RecordsOfCalls(t *testing.T) {
	b := newBank(t, bankOptions{})
	close(b.wait)
	m := b.active("alice", "check_balance", "slow_job", "ticker", within("transfer_money", args("amount", args("max", 50))))
	at := b.url + "/capability/execute"
	send := func(jti, body string) reply {
		return b.ask(http.MethodPost, "/capability/execute", m.token(at, fact{"jti": jti}), body)
	}
	grants := map[string]string{}
	holds := func(what, id, jti, capability, arguments string) {
		t.Helper()
		said, record := b.said(id), b.record(id)
		if said.Token != jti || !b.sent(id, arguments) || b.sent(id, arguments+" ") {
			t.Errorf("%s: the record says %+v of the token %s and the arguments %q", what, said, jti, arguments)
		}
		if capability == "" {
			if said.Grant != "" || record.Powerbox.Capability != "" {
				t.Errorf("%s: a grant of nothing: %+v", what, said)
			}
			return
		}
		if !strings.HasPrefix(said.Grant, "grt_") || record.Powerbox.Capability == "" || grants[capability] != "" && grants[capability] != said.Grant {
			t.Errorf("%s: the grant is %q of the capability %q; before it was %q", what, said.Grant, record.Powerbox.Capability, grants[capability])
		}
		grants[capability] = said.Grant
		for _, out := range b.records("outcome_of=" + id) {
			if b.said(out.ID) != said {
				t.Errorf("%s: the outcome says %+v; the decision %+v", what, b.said(out.ID), said)
			}
		}
	}
	const spaced, plain = `{ "account_id" : "ac\u0063" }`, `{"account_id":"acc"}`
	first := b.want("spaced", send("one", `{"capability":"check_balance", "\u0061rguments" : `+spaced+` }`), http.StatusOK, "").Header.Get("Powerbox-Decision")
	holds("as it came", first, "one", "check_balance", spaced)
	again := b.want("plain", send("two", `{"capability":"check_balance","arguments":`+plain+`}`), http.StatusOK, "").Header.Get("Powerbox-Decision")
	holds("another form", again, "two", "check_balance", plain)
	if b.sent(first, plain) || b.said(first).Grant != b.said(again).Grant {
		t.Errorf("one digest for two texts, or two grants for one: %+v, %+v", b.said(first), b.said(again))
	}
	// Who has the evidence finds no arguments by trying what they may have been.
	same := send("three", `{"capability":"check_balance","arguments":`+plain+`}`).Header.Get("Powerbox-Decision")
	sum := sha256.Sum256([]byte(plain))
	if d := b.said(same).Digest; d == b.said(again).Digest || d == hex.EncodeToString(sum[:]) {
		t.Errorf("the digest of the same arguments is the same: %s", d)
	}
	holds("denied", b.want("denied", send("four", `{"capability":"transfer_money","arguments":{"amount":51.0}}`), http.StatusForbidden, "constraint_violated").text("decision_id"),
		"four", "transfer_money", `{"amount":51.0}`)
	holds("allowed", send("five", `{"capability":"transfer_money","arguments":{"amount":5e1}}`).Header.Get("Powerbox-Decision"), "five", "transfer_money", `{"amount":5e1}`)
	holds("not granted", b.want("not granted", send("six", `{"capability":"list_accounts"}`), http.StatusForbidden, "capability_not_granted").text("decision_id"), "six", "", "")
	batch := b.ask(http.MethodPost, "/capability/batch-execute", m.token(at, fact{"jti": "seven"}),
		`{"requests":[{"id":"a","capability":"check_balance","arguments": `+spaced+`},{"arguments":{"amount": 60},"capability":"transfer_money"},{"capability":"slow_job","arguments":null}]}`)
	parts := b.records("requester=agent-auth:" + m.id + "&limit=100")
	seen := 0
	for _, one := range parts {
		if said := b.said(one.ID); said.Token == "seven" && one.Powerbox.OutcomeOf == "" {
			seen++
			name := strings.TrimPrefix(one.Intent.Operation, "bank/agent-auth/")
			holds("batch", one.ID, "seven", name, map[string]string{"check_balance": spaced, "transfer_money": `{"amount": 60}`, "slow_job": "null"}[name])
		}
	}
	if seen != 3 {
		t.Errorf("%d records of the three parts of %s", seen, batch.Raw)
	}
	// Of two grants for one capability, the record names the one that admitted it (AAP-G7).
	more := m.request(within("transfer_money", args("amount", args("max", 100))))
	b.want("a wider grant", b.approve("alice", codeOf(more), args()), http.StatusOK, "")
	for amount, first := range map[string]bool{"50": true, "80": false} {
		id := b.want(amount, send("of "+amount, `{"capability":"transfer_money","arguments":{"amount":`+amount+`}}`), http.StatusOK, "").Header.Get("Powerbox-Decision")
		if g := b.said(id).Grant; (g == grants["transfer_money"]) != first || !strings.HasPrefix(g, "grt_") {
			t.Errorf("%s went on under %q; the first grant is %q", amount, g, grants["transfer_money"])
		}
	}
	job := send("eight", `{"capability":"slow_job","arguments":{"a":[1, 2]}}`)
	b.ask(http.MethodGet, job.text("status_url"), m.token(at), nil)
	b.ask(http.MethodGet, job.text("status_url"), m.token(at), nil)
	stream := send("nine", `{"arguments":{"b":{"c":"}"}},"capability":"ticker"}`)
	for id, want := range map[string][3]string{
		job.Header.Get("Powerbox-Decision"):    {"eight", "slow_job", `{"a":[1, 2]}`},
		stream.Header.Get("Powerbox-Decision"): {"nine", "ticker", `{"b":{"c":"}"}}`},
	} {
		holds(want[1], id, want[0], want[1], want[2])
		if out := b.records("outcome_of=" + id); len(out) != 1 || out[0].Status != "ACHIEVED" {
			t.Errorf("%s: %+v", want[1], out)
		}
	}
}

// AAP-Z4: who has a file can be told whether its bytes were the arguments, and who has
// the evidence alone learns nothing of them; both verifiers take the records.
func TestAAPZ4_ArgumentsAreHeldAgainstADigest(t *testing.T) {
	b := newBank(t, bankOptions{})
	m := b.active("alice", "check_balance")
	const spaced, plain = `{ "account_id" : "ac\u0063" }`, `{"account_id":"acc"}`
	first := b.ask(http.MethodPost, "/capability/execute", m.token(b.url+"/capability/execute", fact{"jti": "one"}), `{"capability":"check_balance","arguments":`+spaced+`}`).Header.Get("Powerbox-Decision")
	if list := b.must("evidence", "show", first); !strings.Contains(list, `"jti":"one"`) {
		t.Errorf("evidence show: %s", list)
	}
	if out := b.must("explain", first); !regexp.MustCompile(`(?m)^ *token +one$`).MatchString(out) || !regexp.MustCompile(`agent grant +grt_`).MatchString(out) {
		t.Errorf("explain: %s", out)
	}
	b.write("sent.json", spaced)
	b.write("other.json", plain)
	if out := b.must("evidence", "show", first, "--arguments", "sent.json"); !strings.Contains(out, "the arguments were the 29 bytes") {
		t.Errorf("evidence show --arguments: %s", out)
	}
	if out, code := b.cli("evidence", "show", first, "--arguments", "other.json"); code != 4 || strings.Contains(out, "acc") {
		t.Errorf("evidence show --arguments of others: exit %d %s", code, out)
	}
	if r := b.as("root", http.MethodGet, "/v1/records/"+first+"/arguments-key", nil); r.Status != http.StatusUnauthorized || strings.Contains(r.Raw, "key\"") {
		t.Errorf("the key is shown to anybody: %d %s", r.Status, r.Raw)
	}
	outcome := b.records("outcome_of=" + first)[0].ID
	if out, code := b.cli("evidence", "show", outcome, "--arguments", "sent.json"); code != 1 || !strings.Contains(out, first) {
		t.Errorf("evidence show --arguments of an outcome: exit %d %s", code, out)
	}
	for _, r := range b.records("limit=100") {
		if r.Action != "agent.register" { // whose details have a key
			continue
		}
		if out, code := b.cli("evidence", "show", r.ID, "--arguments", "sent.json"); code != 1 || !strings.Contains(out, "no digest of arguments") {
			t.Errorf("evidence show --arguments of no execution: exit %d %s", code, out)
		}
	}
	a := b.handed()
	if f := a.audits(); f.Verdict != "ok" {
		t.Errorf("the verifiers: %v", f.caught())
	}
	if bytes.Contains(a.bundle(), []byte(`"acc"`)) || bytes.Contains(a.bundle(), []byte(`ac\u0063`)) {
		t.Error("the evidence has arguments")
	}
	if data, code := a.runs(filepath.Join(a.dir, "powerbox"), "evidence", "verify", "bundle.jsonl", "--trust", "trust.json"); code != 0 {
		t.Errorf("exit %d: %s", code, data)
	}
}
