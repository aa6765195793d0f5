package e2e

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/token"
)

// TestATK6_ChainsAreNotRearranged presents chains that were cut, spliced and
// reordered, each with a proof by the key that its last token names.
func TestATK6_ChainsAreNotRearranged(t *testing.T) { overTools(t, tryATK6ChainsAreNotRearranged) }

func tryATK6ChainsAreNotRearranged(t *testing.T, on wire) {
	w := start(t, options{on: on})
	alice, sub := w.caller(aliceToken), w.caller("")
	// Of one end, so that neither is longer than the other when seconds pass.
	until := time.Now().Add(10 * time.Minute).UTC().Format(time.RFC3339)
	root := func() granted {
		return alice.request("documents", map[string]any{
			"grants": []string{"documents:read"}, "purpose": "Summarize quarterly reports", "resourceQuery": quarter("2025-Q1"), "expires": until,
		})[0]
	}
	a, b := root(), root()
	chain := alice.derive("documents", []string{a.Token}, token.Narrowing{Holder: sub.key.Public(), MaxDepth: 2})
	chain = sub.derive("documents", chain, token.Narrowing{Holder: sub.key.Public(), MaxDepth: 1})
	other := alice.derive("documents", []string{b.Token}, token.Narrowing{Holder: sub.key.Public(), MaxDepth: 2})
	allowed(t, sub.present("documents", data("search_documents", nil), proven{chain: chain, operation: opSearch}))
	foreignHop := strings.Split(chain[1], ".")
	foreignHop[2] = strings.Split(other[1], ".")[2]
	header, payload, _ := parts(t, chain[1])
	resigned := []string{chain[0], signedBy(t, sub.key, header, payload), chain[2]}
	w.repel(t,
		attack{"ATK-6 spliced under another root", "parent_hash", func() answer { return sub.search(b.Token, chain[1]) }},
		attack{"ATK-6 the root left out", "not_root", func() answer { return sub.search(chain[1], chain[2]) }},
		attack{"ATK-6 the middle left out", "depth", func() answer { return sub.search(chain[0], chain[2]) }},
		attack{"ATK-6 reordered", "depth", func() answer { return sub.search(chain[0], chain[2], chain[1]) }},
		attack{"ATK-6 the root last", "not_root", func() answer { return sub.search(chain[1], chain[0]) }},
		attack{"ATK-6 a link twice", "duplicate_jti", func() answer { return sub.search(chain[0], chain[1], chain[1]) }},
		attack{"ATK-6 another hop's signature", "bad_signature", func() answer { return sub.search(chain[0], strings.Join(foreignHop, ".")) }},
		attack{"ATK-6 a hop signed by whom it names", "bad_signature", func() answer { return sub.search(resigned...) }},
		attack{"ATK-6 the last link cut off", "proof_signature", func() answer { return sub.search(chain[0]) }},
		attack{"ATK-6 two chains as one", "parent_hash", func() answer { return sub.search(chain[0], other[1], chain[2]) }},
	)
}

// TestATK7_UnknownKeys presents roots by keys that documents does not have.
func TestATK7_UnknownKeys(t *testing.T) { overTools(t, tryATK7UnknownKeys) }

func tryATK7UnknownKeys(t *testing.T, on wire) {
	w := start(t, options{on: on})
	alice := w.caller(aliceToken)
	c := alice.reports()
	mail := alice.request("mail", map[string]any{"grants": []string{"mail:send"}, "purpose": "tell the board"})[0]
	stranger := newKey(t)
	claimed := func(r *token.Root) { r.KeyID = w.agentKey("documents").Public().Thumbprint() }
	w.repel(t,
		attack{"ATK-7 a stranger's root", "unknown_key", func() answer {
			return alice.search(alice.forged(c, stranger, func(*token.Root) {}))
		}},
		attack{"ATK-7 a stranger's root under the agent's key id", "bad_signature", func() answer {
			return alice.search(alice.forged(c, stranger, claimed))
		}},
		attack{"ATK-7 the holder as issuer", "bad_signature", func() answer { return alice.search(alice.forged(c, alice.key, claimed)) }},
		attack{"ATK-7 mail's token at documents", "unknown_key", func() answer { return alice.search(mail.Token) }},
		attack{"ATK-7 mail's key for documents", "unknown_key", func() answer {
			return alice.search(alice.forged(c, w.agentKey("mail"), func(*token.Root) {}))
		}},
		attack{"ATK-7 a known root after an unknown one", "unknown_key", func() answer {
			root := alice.forged(c, stranger, func(*token.Root) {})
			v, err := mustParse(t, root).UnsafeTrustRoot(token.Options{Now: time.Now(), Revoked: token.UnsafeNothingRevoked})
			if err != nil {
				t.Fatal(err)
			}
			child, err := token.Derive(v, alice.key, token.Narrowing{ID: nonce(), Now: time.Now(), Tools: v.Tools(), Holder: alice.key.Public()})
			if err != nil {
				t.Fatal(err)
			}
			return alice.search(root, child)
		}},
	)
}

func mustParse(t *testing.T, chain ...string) token.Unverified {
	t.Helper()
	u, err := token.ParseChain(chain)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestATK8_TheParentIsVerifiedAtEveryUse narrows, by the issuer and offline, what
// is revoked, foreign or forged.
func TestATK8_TheParentIsVerifiedAtEveryUse(t *testing.T) {
	overTools(t, tryATK8TheParentIsVerifiedAtEveryUse)
}

func tryATK8TheParentIsVerifiedAtEveryUse(t *testing.T, on wire) {
	w := start(t, options{on: on})
	alice, eve := w.caller(aliceToken), w.caller(bobToken)
	c, gone := alice.reports(), alice.reports()
	late := alice.derive("documents", []string{gone.Token}, token.Narrowing{Holder: alice.key.Public(), MaxDepth: 2})
	allowed(t, alice.call("documents", "a2a/capabilities/revoke", map[string]any{"revocationId": gone.RevocationID}))
	fewer := map[string]any{"operations": []string{"search"}}
	w.repel(t,
		attack{"ATK-8 narrowing a revoked one", "capability_revoked", func() answer { return alice.attenuate(gone.ID, fewer) }},
		attack{"ATK-8 narrowing somebody else's", "capability_unknown", func() answer { return eve.attenuate(c.ID, fewer) }},
		attack{"ATK-8 narrowing with another key", "capability_unknown", func() answer { return w.caller(aliceToken).attenuate(c.ID, fewer) }},
		attack{"ATK-8 narrowing to more", "attenuation_wider", func() answer {
			return alice.attenuate(c.ID, map[string]any{"operations": []string{"search", "delete"}})
		}},
		attack{"ATK-8 a link derived before the revocation", "revoked", func() answer {
			return alice.present("documents", data("search_documents", nil), proven{chain: late, operation: opSearch})
		}},
		attack{"ATK-8 a link derived after the revocation", "revoked", func() answer {
			chain := alice.derive("documents", late, token.Narrowing{Holder: alice.key.Public()})
			return alice.present("documents", data("search_documents", nil), proven{chain: chain, operation: opSearch})
		}},
	)
}

// TestATK9_ARefusedCallUsesUpNoProof sends a proof with calls that are refused
// before the call that it is for.
func TestATK9_ARefusedCallUsesUpNoProof(t *testing.T) {
	everywhere(t, tryATK9ARefusedCallUsesUpNoProof)
}

func tryATK9ARefusedCallUsesUpNoProof(t *testing.T, on wire) {
	w := start(t, options{on: on})
	alice, eve := w.caller(aliceToken), w.caller("")
	c, gone := alice.reports(), alice.reports()
	body, id := data("search_documents", nil), "the-proof-that-is-wanted"
	honest := alice.proof("documents", body, proven{chain: []string{c.Token}, operation: opSearch, id: id})
	wrong := honest.Clone()
	wrong.Set("Powerbox-Capability", gone.Token)
	w.repel(t,
		attack{"ATK-9 with another body", "proof_request", func() answer { return w.post(w.agentURL("documents"), data("search_documents", nil), honest) }},
		attack{"ATK-9 with another chain", "proof_token", func() answer { return w.post(w.agentURL("documents"), body, wrong) }},
		attack{"ATK-9 its id under another key", "proof_signature", func() answer {
			return eve.present("documents", body, proven{chain: []string{c.Token}, operation: opSearch, id: id})
		}},
		attack{"ATK-9 its id for what is not granted", "operation_not_granted", func() answer {
			return alice.present("documents", invoke("archive_document", nil, ""), proven{chain: []string{c.Token}, operation: "documents/documents:admin/archive", id: id})
		}},
	)
	allowed(t, w.post(w.agentURL("documents"), body, honest))
	w.repel(t, attack{"ATK-9 replayed", "proof_replayed", func() answer { return w.post(w.agentURL("documents"), body, honest) }})
}

// TestATK10_ForgedSignatures changes single bytes of a token and of a proof, and
// writes operations of one's own into them.
func TestATK10_ForgedSignatures(t *testing.T) { overTools(t, tryATK10ForgedSignatures) }

func tryATK10ForgedSignatures(t *testing.T, on wire) {
	w := start(t, options{on: on})
	alice := w.caller(aliceToken)
	c := alice.reports()
	header, payload, signature := parts(t, c.Token)
	body, honest := alice.searching(c.Token)
	proofHeader, _, proofSignature := parts(t, honest.Get("Powerbox-Proof"))
	wider := changed(t, payload, `"`+opSearch+`":`, `"`+opDelete+`":{},"`+opSearch+`":`)
	zero := strings.Repeat("\x00", 64)
	w.repel(t,
		attack{"ATK-10 an operation written in", "bad_signature", func() answer { return alice.search(b64(header) + "." + b64(wider) + "." + b64(signature)) }},
		attack{"ATK-10 a zero signature", "bad_signature", func() answer { return alice.search(b64(header) + "." + b64(payload) + "." + b64(zero)) }},
		attack{"ATK-10 no signature", "malformed", func() answer { return alice.search(b64(header) + "." + b64(payload) + ".") }},
		attack{"ATK-10 a signature with a tail", "malformed", func() answer {
			return alice.search(b64(header) + "." + b64(payload) + "." + b64(signature+"\x00"))
		}},
		attack{"ATK-10 a signature that is not canonical", "malformed", func() answer {
			last := base64.RawURLEncoding.EncodeToString([]byte(signature))
			return alice.search(b64(header) + "." + b64(payload) + "." + last[:len(last)-1] + string(last[len(last)-1]+1))
		}},
		attack{"ATK-10 the signature of another message", "bad_signature", func() answer {
			return alice.search(b64(header) + "." + b64(payload) + "." + b64(proofSignature))
		}},
		attack{"ATK-10 a proof for another operation", "proof_signature", func() answer {
			args, body := retrieve(c.ResourceHandles[0].Handle)
			p := alice.proof("documents", body, proven{chain: []string{c.Token}, operation: opRetrieve, arguments: args})
			_, good, _ := parts(t, p.Get("Powerbox-Proof"))
			return alice.with("documents", body, []string{c.Token}, b64(proofHeader)+"."+b64(good)+"."+b64(proofSignature))
		}},
		attack{"ATK-10 no proof", "proof_missing", func() answer { return alice.with("documents", body, []string{c.Token}, "") }},
		attack{"ATK-10 two proofs", "malformed", func() answer {
			p := honest.Get("Powerbox-Proof")
			return alice.with("documents", body, []string{c.Token}, p+","+p)
		}},
	)
}

// TestATK11_TheKeyDecidesTheAlgorithm signs with what the header says and not
// with what the key is for, the public key as an HMAC secret included.
func TestATK11_TheKeyDecidesTheAlgorithm(t *testing.T) {
	overTools(t, tryATK11TheKeyDecidesTheAlgorithm)
}

func tryATK11TheKeyDecidesTheAlgorithm(t *testing.T, on wire) {
	w := start(t, options{on: on})
	alice := w.caller(aliceToken)
	c := alice.reports()
	header, payload, _ := parts(t, c.Token)
	ours := w.agentKey("documents")
	jwks := w.get(w.agentURL("documents") + "/.well-known/jwks.json")
	raw := []byte(token.JWKS(ours.Public()).String())
	for _, alg := range []string{"HS256", "RS256", "PS256", "ES256K", "eddsa", "EDDSA", "Ed25519ph", "none", "NONE", ""} {
		forged := changed(t, header, `"Ed25519"`, `"`+alg+`"`)
		for _, secret := range [][]byte{jwks, raw} {
			w.repel(t, attack{"ATK-11 " + alg + " under the public key", "algorithm", func() answer {
				short := hmacBy(secret, forged, payload)
				return alice.search(short)
			}})
		}
		w.repel(t, attack{"ATK-11 " + alg + " over an honest signature", "algorithm", func() answer { return alice.search(signedBy(t, ours, forged, payload)) }})
	}
	w.repel(t,
		attack{"ATK-11 ES256 for an Ed25519 key", "algorithm", func() answer {
			return alice.search(signedBy(t, ours, changed(t, header, `"Ed25519"`, `"ES256"`), payload))
		}},
		attack{"ATK-11 two algorithms", "malformed", func() answer {
			return alice.search(signedBy(t, ours, changed(t, header, `{`, `{"alg":"none",`), payload))
		}},
		attack{"ATK-11 the algorithm in another case", "algorithm", func() answer {
			return alice.search(signedBy(t, ours, changed(t, header, `"alg"`, `"Alg"`), payload))
		}},
	)
}

// TestATK12_NoneIsNoAlgorithm presents unsigned tokens and unsigned proofs.
func TestATK12_NoneIsNoAlgorithm(t *testing.T) { overTools(t, tryATK12NoneIsNoAlgorithm) }

func tryATK12NoneIsNoAlgorithm(t *testing.T, on wire) {
	w := start(t, options{on: on})
	alice := w.caller(aliceToken)
	c := alice.reports()
	_, payload, signature := parts(t, c.Token)
	body, honest := alice.searching(c.Token)
	_, proofPayload, _ := parts(t, honest.Get("Powerbox-Proof"))
	for _, alg := range []string{"none", "None", "nOnE"} {
		for _, s := range []string{"", signature} {
			unsigned := func(typ, payload string) string {
				return b64(`{"alg":"`+alg+`","typ":"`+typ+`"}`) + "." + b64(payload) + "." + b64(s)
			}
			w.repel(t,
				attack{"ATK-12 token " + alg, "algorithm", func() answer { return alice.search(unsigned("aat+jwt", payload)) }},
				attack{"ATK-12 proof " + alg, "algorithm", func() answer {
					return alice.with("documents", body, []string{c.Token}, unsigned("aat-pop+jwt", proofPayload))
				}},
			)
		}
	}
}

// TestATK13_TypesAreNotConfused presents each thing that is signed where another
// is wanted, under keys that are right for it.
func TestATK13_TypesAreNotConfused(t *testing.T) { overTools(t, tryATK13TypesAreNotConfused) }

func tryATK13TypesAreNotConfused(t *testing.T, on wire) {
	w := start(t, options{on: on})
	alice := w.caller(aliceToken)
	c := alice.reports()
	body, honest := alice.searching(c.Token)
	allowed(t, w.post(w.agentURL("documents"), body, honest))
	context := w.documents.got()[0].header.Get("Powerbox-Context")
	header, payload, _ := parts(t, c.Token)
	_, next := alice.searching(c.Token)
	proof := next.Get("Powerbox-Proof")
	proofHeader, proofPayload, _ := parts(t, proof)
	dpop := alice.headers(w.agentURL("documents")).Get("DPoP")
	ours := w.agentKey("documents")
	w.documents.forget()
	typed := func(typ string) string { return changed(t, header, `"aat+jwt"`, `"`+typ+`"`) }
	w.repel(t,
		attack{"ATK-13 a context as a token", "wrong_type", func() answer { return alice.search(context) }},
		attack{"ATK-13 a proof as a token", "wrong_type", func() answer { return alice.search(proof) }},
		attack{"ATK-13 a DPoP proof as a token", "wrong_type", func() answer { return alice.search(dpop) }},
		attack{"ATK-13 a token as a proof", "wrong_type", func() answer { return alice.with("documents", body, []string{c.Token}, c.Token) }},
		attack{"ATK-13 a context as a proof", "wrong_type", func() answer { return alice.with("documents", body, []string{c.Token}, context) }},
		attack{"ATK-13 a DPoP proof as a proof", "wrong_type", func() answer { return alice.with("documents", body, []string{c.Token}, dpop) }},
		attack{"ATK-13 a token typed as a proof, by the agent's key", "wrong_type", func() answer { return alice.search(signedBy(t, ours, typed("aat-pop+jwt"), payload)) }},
		attack{"ATK-13 a token typed as a context, by the agent's key", "wrong_type", func() answer { return alice.search(signedBy(t, ours, typed("powerbox-context+jwt"), payload)) }},
		attack{"ATK-13 a proof typed as a token, by the agent's key", "missing_claim", func() answer { return alice.search(signedBy(t, ours, header, proofPayload)) }},
		attack{"ATK-13 a proof typed in another case", "wrong_type", func() answer {
			return alice.with("documents", body, []string{c.Token}, signedBy(t, alice.key, changed(t, proofHeader, "aat-pop+jwt", "AAT-POP+jwt"), proofPayload))
		}},
	)
	for _, proof := range []string{proof, c.Token, context} {
		h := http.Header{"DPoP": {proof}, "Authorization": {"DPoP " + aliceToken}}
		w.refused(t, w.post(w.agentURL("documents"), data("search_documents", nil), h), "unauthenticated")
	}
	for _, session := range []string{c.Token, context, c.ID} {
		h := alice.headers(w.agentURL("documents"))
		h.Set("Authorization", "Bearer "+session)
		h.Del("DPoP")
		a := w.post(w.agentURL("documents"), rpc("a2a/capabilities/list", map[string]any{}), h)
		if a.reason() != "unauthenticated" {
			t.Errorf("ATK-13 a capability as a session: %s", a.Raw)
		}
	}
}

// TestATK14_HeadersChooseNoKey offers keys inside tokens, and key ids that would
// mean something to a file system, a database or an HTTP client.
func TestATK14_HeadersChooseNoKey(t *testing.T) { overTools(t, tryATK14HeadersChooseNoKey) }

func tryATK14HeadersChooseNoKey(t *testing.T, on wire) {
	w := start(t, options{on: on})
	alice := w.caller(aliceToken)
	c := alice.reports()
	header, payload, _ := parts(t, c.Token)
	mine := newKey(t)
	jwk := changed(t, token.JWKS(mine.Public()).String(), `{"keys":[`, "")
	jwk = strings.TrimSuffix(jwk, "]}")
	asked := make(chan string, 8)
	bait := newBait(t, asked, token.JWKS(mine.Public()).String())
	kid := w.agentKey("documents").Public().Thumbprint()
	withKid := func(v string) string { return changed(t, header, `"`+kid+`"`, v) }
	for name, member := range map[string]string{
		"jwk": `"jwk":` + jwk, "jku": `"jku":"` + bait + `/jwks.json"`, "x5u": `"x5u":"` + bait + `/cert.pem"`, "x5c": `"x5c":["AAAA"]`,
	} {
		for _, kid := range []string{`"` + kid + `"`, `"` + mine.Public().Thumbprint() + `"`} {
			h := changed(t, withKid(kid), `{`, `{`+member+`,`)
			a := alice.search(signedBy(t, mine, h, payload))
			if r := a.reason(); r != "bad_signature" && r != "unknown_key" {
				t.Errorf("ATK-14 %s: %s", name, a.Raw)
			}
			if d := w.decided(a); d.Decision != "DENY" {
				t.Errorf("ATK-14 %s: recorded as %s", name, d.Decision)
			}
		}
	}
	for _, id := range []string{
		`"../../agent-documents.jwk"`, `"/dev/null"`, `"` + bait + `"`, `"' OR '1'='1"`, `"` + kid + `\u0000"`, `""`, `" ` + kid + `"`, `"` + strings.ToUpper(kid) + `"`, `"mail"`,
	} {
		w.repel(t,
			attack{"ATK-14 kid " + id, "unknown_key", func() answer { return alice.search(signedBy(t, mine, withKid(id), payload)) }},
			attack{"ATK-14 an honest token with kid " + id, "unknown_key", func() answer { return alice.search(signedBy(t, w.agentKey("documents"), withKid(id), payload)) }},
		)
	}
	for _, id := range []string{`["` + kid + `"]`, `null`, `7`} {
		w.repel(t, attack{"ATK-14 kid " + id, "bad_signature", func() answer { return alice.search(signedBy(t, mine, withKid(id), payload)) }})
	}
	w.repel(t, attack{"ATK-14 a critical extension", "malformed", func() answer {
		return alice.search(signedBy(t, w.agentKey("documents"), changed(t, header, `{`, `{"crit":["exp"],`), payload))
	}})
	if len(asked) > 0 {
		t.Errorf("ATK-14 the server fetched %s", <-asked)
	}
	if len(w.documents.got()) > 0 {
		t.Error("something reached the agent")
	}
}

// TestATK21_Times presents tokens and proofs from other times, by the agent's
// own key where a token is wanted.
func TestATK21_Times(t *testing.T) { overTools(t, tryATK21Times) }

func tryATK21Times(t *testing.T, on wire) {
	w := start(t, options{on: on})
	alice := w.caller(aliceToken)
	c := alice.reports()
	ours := w.agentKey("documents")
	header, payload, _ := parts(t, c.Token)
	exp := between(payload, `"exp":`, ",")
	if i := strings.IndexAny(exp, "}"); i >= 0 {
		exp = exp[:i]
	}
	written := func(v string) string { return signedBy(t, ours, header, changed(t, payload, `"exp":`+exp, `"exp":`+v)) }
	var attacks []attack
	for v, reason := range map[string]string{
		`"` + exp + `"`: "malformed", exp + ".5": "malformed", "99999999999999": "malformed", "253402300799": "lifetime", "-1": "malformed",
		"1e999999999": "malformed", "9223372036854775808": "malformed", "null": "malformed", "true": "malformed", "0": "lifetime",
	} {
		attacks = append(attacks, attack{"ATK-21 exp " + v, reason, func() answer { return alice.search(written(v)) }})
	}
	at := func(d time.Duration) func() answer {
		return func() answer {
			return alice.present("documents", data("search_documents", nil), proven{chain: []string{c.Token}, operation: opSearch, at: time.Now().Add(d)})
		}
	}
	forged := func(change func(*token.Root)) func() answer {
		return func() answer {
			f := alice.forged(c, ours, change)
			return alice.present("documents", data("search_documents", nil), proven{chain: []string{f}, operation: opSearch})
		}
	}
	attacks = append(attacks,
		attack{"ATK-21 an expired token", "expired", forged(func(r *token.Root) { r.Expires = time.Now().Add(-time.Second) })},
		attack{"ATK-21 a token from the future", "not_yet_valid", forged(func(r *token.Root) {
			r.IssuedAt, r.Expires = time.Now().Add(time.Minute), time.Now().Add(time.Hour)
		})},
		attack{"ATK-21 an old proof", "proof_time", at(-2 * time.Minute)},
		attack{"ATK-21 a proof from the future", "proof_time", at(2 * time.Minute)},
		attack{"ATK-21 a link that outlives its root", "expiry_widened", func() answer {
			chain := alice.derive("documents", []string{c.Token}, token.Narrowing{Holder: alice.key.Public()})
			h, p, _ := parts(t, chain[1])
			return alice.search(c.Token, signedBy(t, alice.key, h, changed(t, p, `"exp":`+exp, `"exp":`+strconv.FormatInt(c.Expires.Unix()+1, 10))))
		}},
	)
	w.repel(t, attacks...)
	for _, expires := range []string{"2099-01-01T00:00:00Z", "9999-12-31T23:59:59Z"} {
		a := alice.call("documents", "a2a/capabilities/request", map[string]any{"grants": []string{"documents:read"}, "purpose": "p", "expires": expires})
		if a.Error != nil {
			continue
		}
		if got := capabilities(t, a)[0]; got.Expires.After(time.Now().Add(24 * time.Hour)) {
			t.Errorf("ATK-21 a capability until %s was issued until %s", expires, got.Expires)
		}
	}
}

// TestATK41_NothingWiderIsDerived presents links that their holder signed
// honestly and that admit more than what they descend from.
func TestATK41_NothingWiderIsDerived(t *testing.T) { overTools(t, tryATK41NothingWiderIsDerived) }

func tryATK41NothingWiderIsDerived(t *testing.T, on wire) {
	w := start(t, options{on: on})
	alice := w.caller(aliceToken)
	c := alice.reports()
	base := alice.derive("documents", []string{c.Token}, token.Narrowing{Holder: alice.key.Public(), MaxDepth: 2})
	header, payload, _ := parts(t, base[1])
	tools := between(payload, `"tools":`, `"type"`)
	tools = strings.TrimSuffix(strings.TrimSpace(tools), ",")
	child := func(with string) answer {
		return alice.search(c.Token, signedBy(t, alice.key, header, changed(t, payload, tools, with)))
	}
	handle := c.ResourceHandles[0].Handle
	for name, constraint := range map[string]string{
		"wildcard":      `{"resourceHandle":{"constraint_type":"wildcard"}}`,
		"not_one_of":    `{"resourceHandle":{"constraint_type":"not_one_of","values":["x"]}}`,
		"another value": `{"resourceHandle":{"constraint_type":"one_of","values":["` + handle + `","/vault/salaries.pdf"]}}`,
		"a pattern":     `{"resourceHandle":{"constraint_type":"regex","pattern":".*"}}`,
		"a union":       `{"resourceHandle":{"constraint_type":"any","constraints":[{"constraint_type":"exact","value":"` + handle + `"},{"constraint_type":"wildcard"}]}}`,
		"a negation":    `{"resourceHandle":{"constraint_type":"not","constraint":{"constraint_type":"exact","value":"x"}}}`,
		"an expression": `{"resourceHandle":{"constraint_type":"cel","expression":"true || value == 'x'"}}`,
		"nothing":       `{}`,
		"more keys":     `{"resourceHandle":{"constraint_type":"exact","value":"` + handle + `"},"path":{"constraint_type":"wildcard"}}`,
	} {
		t.Run("ATK-41 "+name, func(t *testing.T) {
			a := child(`{"` + opRetrieve + `":` + constraint + `}`)
			if r := a.reason(); r != "capability_widened" && r != "unknown_constraint" {
				t.Errorf("%s", a.Raw)
			}
			if d := w.decided(a); d.Decision != "DENY" {
				t.Errorf("recorded as %s", d.Decision)
			}
		})
	}
	w.repel(t,
		attack{"ATK-41 another operation", "capability_widened", func() answer { return child(`{"` + opDelete + `":{}}`) }},
		attack{"ATK-41 every operation", "capability_widened", func() answer { return child(`{"*":{}}`) }},
		attack{"ATK-41 a deeper chain", "depth", func() answer {
			return alice.search(c.Token, signedBy(t, alice.key, header, changed(t, payload, `"del_max_depth":3`, `"del_max_depth":9`)))
		}},
	)
	if len(w.documents.got()) > 0 {
		t.Error("something reached the agent")
	}
}

// TestATK2_OperationsAreExactNames tries names that begin, end or look like one
// that is granted.
func TestATK2_OperationsAreExactNames(t *testing.T) { overTools(t, tryATK2OperationsAreExactNames) }

func tryATK2OperationsAreExactNames(t *testing.T, on wire) {
	w := start(t, options{on: on})
	alice := w.caller(aliceToken)
	c := alice.reports()
	for _, skill := range []string{"search_documents_all", "search", "SEARCH_DOCUMENTS", "search_documents ", "search_documents/", "search.*", "search*", "*", "", "\u017fearch_documents", "search_document\u017f"} {
		a := alice.present("documents", invoke(skill, nil, ""), proven{chain: []string{c.Token}, operation: opSearch})
		if r := a.reason(); r != "skill_unmapped" && r != "params" {
			t.Errorf("ATK-2 %q: %s", skill, a.Raw)
		}
	}
	for _, op := range []string{opSearch + ".*", opSearch + "-report", "documents/documents:read", "documents/documents:read/*", strings.ToUpper(opSearch)} {
		w.repel(t, attack{"ATK-2 a proof for " + op, "proof_operation", func() answer {
			return alice.present("documents", data("search_documents", nil), proven{chain: []string{c.Token}, operation: op})
		}})
	}
	// A token that names a longer operation does not have the shorter one.
	longer := alice.forged(c, w.agentKey("documents"), func(r *token.Root) {
		op, err := powerbox.ParseOperation(opSearch + "-report")
		if err != nil {
			t.Fatal(err)
		}
		r.Tools = append(slices.DeleteFunc(slices.Clone(r.Tools), func(cl powerbox.Clause) bool { return cl.Pattern.Name() == opSearch }),
			powerbox.Clause{Pattern: powerbox.ExactPattern(op), Shape: powerbox.AnyArguments()})
	})
	w.repel(t, attack{"ATK-2 a longer name", "operation_not_granted", func() answer {
		return alice.present("documents", data("search_documents", nil), proven{chain: []string{longer}, operation: opSearch})
	}})
	if len(w.documents.got()) > 0 {
		t.Error("something reached the agent")
	}
}
