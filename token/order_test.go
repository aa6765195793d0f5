package token

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// verifyInOrder verifies a chain in the order of the draft's section 8: link by link the
// header, the signature over the bytes as they came, and only then the claims.
func verifyInOrder(tokens []string, anchors KeySet, o Options) error {
	if err := checkForm(nil, tokens); err != nil {
		return err
	}
	head, err := headerOf(tokens[0], typeToken)
	if err != nil {
		return err
	}
	if head.drafts.newest() == Draft01 && !o.Draft01 {
		return refuse(CodeDraft, "is of draft -01")
	}
	var links []*link
	for i, compact := range tokens {
		keys := anchors.candidates(head)
		if i > 0 {
			keys = []KeptKey{links[i-1].holderKey()}
		}
		if !slices.ContainsFunc(keys, func(k KeptKey) bool { return signedBy(compact, k) }) {
			return refuse(CodeSignature, "no key has signed token %d", i)
		}
		l, err := parseLink(compact, head, i == 0, func(*link) {})
		if err != nil {
			return err
		}
		l.setHash()
		if err := follow(links, l); err != nil {
			return err
		}
		if i > 0 {
			err = l.checkTools(links[i-1])
		} else {
			err = anchors.checkIssuer(l)
		}
		if err != nil {
			return err
		}
		links = append(links, l)
		if err := newChain(links[i:]).checkTimes(o.Now); err != nil {
			return err
		}
	}
	if !links[len(links)-1].hasEntry {
		return refuse(CodeEmptyCapability, "the last token has no entry")
	}
	return newChain(links).checkRevocation(o.Revoked)
}

// signedBy reads nothing of a token but its header and its signature.
func signedBy(compact string, key KeptKey) bool {
	h, err := headerOf(compact, typeToken)
	if err != nil || h.algorithm != key.algorithm {
		return false
	}
	dot := strings.LastIndexByte(compact, '.')
	signature, err := decodeBase64(compact[dot+1:])
	return err == nil && key.Verify([]byte(compact[:dot]), signature)
}

// TestOrderOfTheTextGivesTheSameVerdicts compares the two orders over every vector, and
// over random changes of them (ADR 133).
func TestOrderOfTheTextGivesTheSameVerdicts(t *testing.T) {
	random := rand.New(rand.NewPCG(133, 2))
	accepted, compared := 0, 0
	same := func(name string, tokens []string, anchors KeySet, o Options) {
		t.Helper()
		text := verifyInOrder(tokens, anchors, o)
		_, ours := NewMemo(1<<20).Verify(JoinChain(tokens), anchors, o)
		if (text == nil) != (ours == nil) {
			t.Errorf("%s: in the order of the text %v, here %v", name, text, ours)
		}
		compared++
		if ours == nil {
			accepted++
		}
	}
	for _, c := range catalogue() {
		v := c.vector(t)
		anchors, err := ParseKeySet(v.Anchors)
		if err != nil {
			continue
		}
		tokens, err := ParseChainFile(v.Chain)
		if err != nil || len(v.Chain) > 1<<14 {
			continue
		}
		o := Options{Now: time.Unix(v.At, 0), Revoked: newRevocationList(v.Revoked).has, Draft01: v.Draft01}
		same(c.name, tokens, anchors.Of(v.Issuer), o)
		for range 8 {
			same(c.name+", changed", changedChain(random, tokens), anchors.Of(v.Issuer), o)
		}
	}
	if accepted < 100 || compared-accepted < 1000 {
		t.Errorf("%d compared, %d accepted; want both in numbers", compared, accepted)
	}
}

// changedChain changes a character, or leaves out, repeats or swaps tokens.
func changedChain(random *rand.Rand, tokens []string) []string {
	out := slices.Clone(tokens)
	if len(out) == 0 {
		return out
	}
	i, j := random.IntN(len(out)), random.IntN(len(out))
	switch random.IntN(4) {
	case 0:
		return slices.Delete(out, i, i+1)
	case 1:
		out[i], out[j] = out[j], out[i]
	case 2:
		out[i] = out[j]
	default:
		if at := random.IntN(len(out[i]) + 1); at < len(out[i]) {
			out[i] = out[i][:at] + string("AZ9_-."[random.IntN(6)]) + out[i][at+1:]
		}
	}
	return out
}

// TestOrderOfTheTextAnswersThePublishedVectors keeps the reference in that test honest:
// of the published chains it refuses none that is to be permitted.
func TestOrderOfTheTextAnswersThePublishedVectors(t *testing.T) {
	data, err := os.ReadFile("testdata/aat-02/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var suite published
	if err := json.Unmarshal(data, &suite); err != nil {
		t.Fatal(err)
	}
	anchors, err := ParseKeySet(slices.Concat([]byte(`{"keys":[`), suite.Anchors[0].Key, []byte(`]}`)))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range suite.Vectors {
		err := verifyInOrder(v.Chain, anchors.Of(suite.Anchors[0].Issuer), quiet(time.Unix(v.Now, 0)))
		chainStep := v.Step != "" && v.Step[0] < '6'
		if chainStep == (err == nil) {
			t.Errorf("%s, step %q: %v", v.ID, v.Step, err)
		}
	}
}
