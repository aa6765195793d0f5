package token

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox"
)

func root(t testing.TB, change func(*Root)) (string, error) {
	t.Helper()
	r := Root{
		ID: "root", Issuer: "https://agent.example", IssuedAt: at, Expires: at.Add(time.Hour), MaxDepth: 3,
		Holder: keyOf(t, "holder", Ed25519).Public(), Tools: tools(t, readAndSearch),
	}
	change(&r)
	return Mint(keyOf(t, "issuer", Ed25519), r)
}

func TestMintRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Root)
		code   powerbox.Code
	}{
		"nothing wrong":       {func(*Root) {}, ""},
		"private claim":       {func(r *Root) { r.Private = &Private{Capability: "c", Legacy: true} }, ""},
		"no id":               {func(r *Root) { r.ID = "" }, CodeMissingClaim},
		"long id":             {func(r *Root) { r.ID = strings.Repeat("x", 2000) }, CodeMissingClaim},
		"issuer no URI":       {func(r *Root) { r.Issuer = "agent" }, CodeIssuer},
		"no holder":           {func(r *Root) { r.Holder = PublicKey{} }, CodeMissingClaim},
		"before 1970":         {func(r *Root) { r.IssuedAt = time.Unix(-1, 0) }, CodeLifetime},
		"after 9999":          {func(r *Root) { r.Expires = time.Unix(maxTime+1, 0) }, CodeLifetime},
		"no lifetime":         {func(r *Root) { r.Expires = r.IssuedAt }, CodeLifetime},
		"91 days":             {func(r *Root) { r.Expires = r.IssuedAt.Add(91 * 24 * time.Hour) }, CodeLifetime},
		"too deep":            {func(r *Root) { r.MaxDepth = 17 }, CodeDepth},
		"negative depth":      {func(r *Root) { r.MaxDepth = -1 }, CodeDepth},
		"too many tools":      {func(r *Root) { r.Tools = slices.Repeat(r.Tools, 200) }, CodeTooLarge},
		"a tool twice":        {func(r *Root) { r.Tools = slices.Repeat(r.Tools, 2) }, CodeNotExpressible},
		"too large":           {func(r *Root) { r.Private = &Private{Grant: strings.Repeat("x", 60_000)} }, CodeTooLarge},
		"a pattern":           {func(r *Root) { r.Tools = []powerbox.Clause{{Pattern: scope(t, "a"), Shape: powerbox.AnyArguments()}} }, CodeNotExpressible},
		"no arguments at all": {func(r *Root) { r.Tools[0].Shape = powerbox.Shape{} }, CodeNotExpressible},
	} {
		if _, err := root(t, c.change); codeOf(err) != c.code {
			t.Errorf("%s: %v; want code %q", name, err, c.code)
		}
	}
}

func scope(t testing.TB, s string) powerbox.Pattern {
	t.Helper()
	p, err := powerbox.ParseScope(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestToolsSaysWhatATokenCanSay(t *testing.T) {
	field := powerbox.Field{Name: "a", Constraint: powerbox.Wildcard{}, Required: true}
	optional, star := powerbox.Field{Name: "a", Constraint: powerbox.Wildcard{}}, powerbox.Field{Name: "*", Constraint: powerbox.Wildcard{}, Required: true}
	rounded := powerbox.Field{Name: "a", Constraint: powerbox.ExactValue{Value: value(t, `9007199254740993`)}, Required: true}
	for name, c := range map[string]struct {
		rest   powerbox.Rest
		fields []powerbox.Field
		code   powerbox.Code
	}{
		"any call":             {powerbox.RestAny, nil, ""},
		"named arguments":      {powerbox.RestNone, []powerbox.Field{field}, ""},
		"no arguments":         {powerbox.RestNone, nil, CodeNotExpressible},
		"named and others":     {powerbox.RestAny, []powerbox.Field{field}, ""},
		"an optional argument": {powerbox.RestNone, []powerbox.Field{optional}, ""},
		"an argument called *": {powerbox.RestNone, []powerbox.Field{star}, CodeNotExpressible},
		"a rounded number":     {powerbox.RestNone, []powerbox.Field{rounded}, CodeNotExpressible},
	} {
		shape, err := powerbox.NewShape(c.rest, c.fields...)
		if err != nil {
			t.Fatal(err)
		}
		a, err := powerbox.NewAuthority(powerbox.Window{Until: at}, 0, powerbox.Clause{Pattern: powerbox.ExactPattern(operation(t, "x")), Shape: shape})
		if err != nil {
			t.Fatal(err)
		}
		_, err = Draft01.Tools(a)
		in01 := c.code == "" && shape.Rest() == powerbox.RestNone == (len(c.fields) > 0) && !slices.ContainsFunc(c.fields, func(f powerbox.Field) bool { return !f.Required })
		if star := name == "an argument called *"; (err == nil) != (in01 || star) {
			t.Errorf("%s in draft -01: %v", name, err)
		}
		clauses, err := Tools(a)
		if codeOf(err) != c.code {
			t.Errorf("%s: %v; want code %q", name, err, c.code)
		}
		if err != nil {
			continue
		}
		again, err := ParseTools(ToolsJSON(clauses).AppendJSON(nil))
		if err != nil || len(again) != 1 || !again[0].Shape.Equal(shape) {
			t.Errorf("%s: does not come back: %v", name, err)
		}
	}
}

func TestParseToolsRefuses(t *testing.T) {
	var many, wide []string
	for i := range 300 {
		many = append(many, `"t`+string(rune(0x100+i))+`":{}`)
		wide = append(wide, `"a`+string(rune(0x100+i))+`":{"constraint_type":"wildcard"}`)
	}
	for text, code := range map[string]powerbox.Code{
		`{`: CodeMalformed, `[]`: CodeMalformed, `{"":{}}`: CodeMalformed, `{"x":[]}`: CodeMalformed,
		`{"` + strings.Repeat("x", 257) + `":{}}`:   CodeMalformed,
		`{` + strings.Join(many, ",") + `}`:         CodeTooLarge,
		`{"x":{` + strings.Join(wide, ",") + `}}`:   CodeTooLarge,
		`{"x":{"a":{"constraint_type":"unheard"}}}`: CodeConstraint,
	} {
		if _, err := ParseTools([]byte(text)); codeOf(err) != code {
			t.Errorf("%.40s: %v; want code %s", text, err, code)
		}
	}
}

// TestATK8_DeriveRefuses what verification would: the two agree about every request of a
// holder.
func TestATK8_DeriveRefuses(t *testing.T) {
	f := newFamily(t, 1)
	parent := f.verify(t)
	for name, c := range map[string]struct {
		change func(*Narrowing)
		code   powerbox.Code
		excess []powerbox.Code
	}{
		"nothing wrong":  {func(*Narrowing) {}, "", nil},
		"a later expiry": {func(n *Narrowing) { n.Expires = at.Add(2 * time.Hour) }, CodeWidened, codes(powerbox.CodeExpired)},
		"an earlier one": {func(n *Narrowing) { n.Expires = at.Add(time.Minute) }, "", nil},
		"in the past":    {func(n *Narrowing) { n.Expires = at.Add(-time.Minute) }, CodeLifetime, nil},
		"more depth":     {func(n *Narrowing) { n.MaxDepth = 15 }, CodeWidened, codes(powerbox.CodeDepth)},
		"negative depth": {func(n *Narrowing) { n.MaxDepth = -1 }, CodeDepth, nil},
		"another tool and value": {func(n *Narrowing) {
			n.Tools = tools(t, `{"write":{},"read":{"path":{"constraint_type":"exact","value":"/q3"}}}`)
		}, CodeWidened, codes(powerbox.CodeArgumentConstraint, powerbox.CodeOperation)},
		"everything":        {func(n *Narrowing) { n.Expires, n.MaxDepth, n.Tools = at.Add(9*time.Hour), 16, tools(t, `{"write":{}}`) }, CodeWidened, codes(powerbox.CodeExpired, powerbox.CodeDepth, powerbox.CodeOperation)},
		"no holder":         {func(n *Narrowing) { n.Holder = PublicKey{} }, CodeMissingClaim, nil},
		"the root's id":     {func(n *Narrowing) { n.ID = "root" }, CodeDuplicateID, nil},
		"an older clock":    {func(n *Narrowing) { n.Now = at.Add(-time.Hour) }, "", nil},
		"a pattern":         {func(n *Narrowing) { n.Tools[0].Pattern = scope(t, "read") }, CodeNotExpressible, nil},
		"a chain too large": {func(n *Narrowing) { n.ID = strings.Repeat("x", 1025) }, CodeMissingClaim, nil},
	} {
		n := Narrowing{ID: "next", Now: at, Tools: parent.Tools(), Holder: f.holders[0].Public()}
		c.change(&n)
		child, err := Derive(parent, f.holders[1], n)
		if codeOf(err) != c.code {
			t.Errorf("%s: %v; want code %q", name, err, c.code)
		}
		var wider *WiderError
		if errors.As(err, &wider) {
			got := []powerbox.Code{}
			for _, e := range wider.Excess {
				got = append(got, e.Code)
			}
			if d := cmp.Diff(c.excess, got); d != "" || !errors.Is(err, powerbox.ErrDenied) || !strings.Contains(err.Error(), "beyond") {
				t.Errorf("%s: %v: %s", name, err, d)
			}
		}
		if err != nil {
			continue
		}
		u, err := ParseChain(append(parent.Tokens(), child))
		if err != nil {
			t.Fatal(name, err)
		}
		if _, err := u.Verify(f.anchors, quiet(at)); err != nil {
			t.Errorf("%s: derived and refused: %v", name, err)
		}
	}
}

func TestATK8_DeriveNeedsAVerifiedParentAndItsHolder(t *testing.T) {
	f := newFamily(t, 1)
	n := Narrowing{ID: "next", Now: at, Tools: tools(t, readAndSearch), Holder: f.holders[0].Public()}
	if _, err := Derive(Verified{}, f.holders[1], n); codeOf(err) != CodeEmptyChain {
		t.Error(err)
	}
	if _, err := Derive(f.verify(t), f.holders[0], n); codeOf(err) != CodeHolder {
		t.Error(err)
	}
	if _, err := Derive(f.verify(t), brokenSigner{f.holders[1]}, n); err == nil {
		t.Error("signed with a broken key")
	}
}

// brokenSigner is a device that does not answer.
type brokenSigner struct{ *PrivateKey }

func (brokenSigner) Sign([]byte) ([]byte, error) { return nil, errors.New("no answer") }

func TestDeriveRefusesAChainThatGrowsTooLarge(t *testing.T) {
	var entries []string
	for i := range 200 {
		entries = append(entries, `"t`+string(rune(0x100+i))+`":{"a":{"constraint_type":"exact","value":"`+strings.Repeat("x", 170)+`"}}`)
	}
	f := newFamily(t, 0)
	token, err := root(t, func(r *Root) {
		r.MaxDepth, r.Holder, r.Tools = 16, f.holders[0].Public(), tools(t, `{`+strings.Join(entries, ",")+`}`)
	})
	if err != nil {
		t.Fatal(err)
	}
	f.tokens, f.anchors = []string{token}, NewKeySet(keyOf(t, "issuer", Ed25519).Public())
	for range 6 {
		parent := f.verify(t)
		child, err := Derive(parent, f.holders[0], Narrowing{
			ID: "x" + strings.Repeat("x", len(f.tokens)), Now: at, Tools: parent.Tools(), MaxDepth: parent.Authority().Depth() - 1, Holder: f.holders[0].Public(),
		})
		if err != nil {
			if codeOf(err) != CodeTooLarge || child != "" {
				t.Error(child, err)
			}
			return
		}
		f.tokens = append(f.tokens, child)
	}
	t.Error("a chain of more than 256 KiB was made")
}

// TestATK55_DeriveHasTheBudgetOfVerification: what could not be verified is not
// made.
func TestATK55_DeriveHasTheBudgetOfVerification(t *testing.T) {
	heavy := func(most string) []powerbox.Clause {
		clauses := strings.Repeat(exact(most)+",", 250) + exact("1")
		var arguments []string
		for _, name := range strings.Split("abcde", "") {
			arguments = append(arguments, `"`+name+`":{"constraint_type":"all","constraints":[`+clauses+`]}`)
		}
		return tools(t, `{"use":{`+strings.Join(arguments, ",")+`}}`)
	}
	f := newFamily(t, 0)
	token, err := root(t, func(r *Root) { r.Holder, r.Tools = f.holders[0].Public(), heavy("1") })
	if err != nil {
		t.Fatal(err)
	}
	f.tokens = []string{token}
	parent := f.verify(t)
	n := Narrowing{ID: "next", Now: at, Tools: heavy("2"), Holder: f.holders[0].Public()}
	if _, err := Derive(parent, f.holders[0], n); codeOf(err) != CodeTooLarge {
		t.Error(err)
	}
	c := claims{
		id: "next", issuer: parent.chain.leaf().holder.URI(), issuedAt: at.Unix(), expires: at.Unix() + 60, depth: 1, maxDepth: 1,
		holder: n.Holder, parentHash: parent.chain.leaf().hash, tools: n.Tools,
	}
	child, err := c.sign(f.holders[0], "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseChain([]string{token, child}); codeOf(err) != CodeTooLarge {
		t.Error(err)
	}
}

// TestStrictDerivesWhatTheTableOfTheDraftAllows: a strict root and a strict child have no
// constraint type of ours, and the refusal names each one. Nor does a strict child rest on
// one of its parent's.
func TestStrictDerivesWhatTheTableOfTheDraftAllows(t *testing.T) {
	const ours = `{"fetch":{"u":{"constraint_type":"any","constraints":[{"constraint_type":"glob","pattern":"a*"}]}},"read":{"p":{"constraint_type":"path","root":"/d"}},"search":{}}`
	_, err := root(t, func(r *Root) { r.Tools, r.Strict = tools(t, ours), true })
	want := `not_expressible: strict: operation "fetch", argument "u" has constraint_type glob, which the draft does not define; ` +
		`operation "read", argument "p" has constraint_type path, which the draft does not define`
	if err == nil || err.Error() != want {
		t.Errorf("a strict root: %v; want %s", err, want)
	}
	f := newFamily(t, 0)
	first, err := root(t, func(r *Root) { r.Holder, r.Tools = f.holders[0].Public(), tools(t, ours) })
	if err != nil {
		t.Fatal(err)
	}
	f.tokens = []string{first}
	parent := f.verify(t)
	for text, refused := range map[string]bool{
		`{"search":{}}`: false, `{"search":{"q":{"constraint_type":"path","root":"/d"}}}`: true,
		`{"read":{"p":{"constraint_type":"path","root":"/d/e"}}}`: true,
		// Only our own type says that the value is inside.
		`{"read":{"p":{"constraint_type":"exact","value":"/d/e"}}}`: true,
	} {
		n := Narrowing{ID: "next", Now: at, Tools: tools(t, text), Holder: f.holders[0].Public()}
		if _, err := Derive(parent, f.holders[0], n); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		n.Strict = true
		if _, err := Derive(parent, f.holders[0], n); (codeOf(err) == CodeNotExpressible) != refused {
			t.Errorf("%s, strictly: %v; want a refusal: %t", text, err, refused)
		}
	}
}

// TestDerivingKeepsTheDraft: a holder writes tokens and proofs in the draft of its chain.
func TestDerivingKeepsTheDraft(t *testing.T) {
	for _, draft := range []Draft{Draft01, Draft02} {
		f := newFamily(t, 0)
		first, err := root(t, func(r *Root) { r.Holder, r.Tools, r.Draft = f.holders[0].Public(), tools(t, readAndSearch), draft })
		if err != nil {
			t.Fatal(err)
		}
		o := quiet(at)
		o.Draft01 = true
		v := verified(t, f.anchors, o, first)
		child, err := Derive(v, f.holders[0], Narrowing{ID: "next", Now: at, Tools: v.Tools(), Holder: f.holders[0].Public()})
		if err != nil {
			t.Fatal(err)
		}
		v = verified(t, f.anchors, o, first, child)
		if v.Draft() != draft {
			t.Errorf("draft %s became %s", draft, v.Draft())
		}
		op, args := operation(t, "search"), value(t, `{}`)
		proof, err := v.SignProof(f.holders[0], Proof{ID: "p", IssuedAt: at, Operation: op.String(), Arguments: args})
		if err != nil {
			t.Fatal(err)
		}
		p, err := v.CheckProof(proof, Expected{Now: at, Operation: op, Arguments: args})
		if err != nil || (p.TokenHash != "") != (draft == Draft02) {
			t.Errorf("draft %s: %+v, %v", draft, p, err)
		}
	}
}

func verified(t *testing.T, anchors KeySet, o Options, chain ...string) Verified {
	t.Helper()
	v, err := NewMemo(1<<20).Verify(JoinChain(chain), anchors, o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
