package token

import (
	"crypto/sha256"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox"
)

// typeContext is the typ of the context that a gateway sends to the agent
// behind it. Only a JWS of exactly this typ is one, so that no other token of
// the same key can stand in (ATK-13).
const typeContext = "powerbox-context+jwt"

// MaxContextLifetime bounds exp less iat: a context is for the one request
// that it travels with.
const MaxContextLifetime = 5 * time.Minute

// Context is what a gateway tells the agent behind it about one request: who
// asks, by what right, and which resources are meant. It travels in the header
// Powerbox-Context as a compact JWS, signed by the agent's issuing key, and is
// bound to the bytes of the request (design, section 4). The real ids of
// resources travel here and nowhere else.
type Context struct {
	Issuer     string // the issuer of the agent; required
	Audience   string // the id of the agent; required
	IssuedAt   time.Time
	Expires    time.Time // at most MaxContextLifetime after IssuedAt
	Principal  string    // "" if unknown
	Holder     string    // id of the holder; "" if unknown
	Capability string    // id of the capability; "" where none was presented
	Root       string    // id of the root capability that it comes from
	Mode       string    // how the gateway treats the agent; required
	Basis      string    // by what the call was let through; required
	Decision   string    // id of the decision on record
	Task       string    // task that the request belongs to
	Tenant     string    // of the agent, in which that task is; "" for none
	// Authority is under what the request was decided; the zero one permits
	// nothing.
	Authority powerbox.Authority
	// Handles are the resources that the request may touch, by handle. Nil
	// says that the request is not bounded by handles, empty that there is no
	// resource that it may touch.
	Handles map[string]ContextHandle
	// Delegated are capabilities of other agents that were handed over with the
	// request; the agent is their holder and presents them by id (SEP-13).
	Delegated []ContextDelegation
	// Labels are those of all that the caller had read before, where the operator labels
	// results (ADR 149).
	Labels []ContextLabel
	// Digest is the [DigestOf] the body that is forwarded. SignContext needs
	// it; VerifyContext compares it with the body.
	Digest string
}

// ContextHandle is the resource that a handle stands for.
type ContextHandle struct {
	ID   string // as the agent knows it; required
	Name string // for people
}

// ContextLabel says where data comes from that the caller had read, whether it can be relied
// on, and whether it may leave.
type ContextLabel struct {
	Source       string // required
	Untrusted    bool
	Confidential bool
}

// ContextDelegation is a capability that was handed over.
type ContextDelegation struct {
	Agent      string // public URL of the agent that issued it; required
	Capability string // id on record there; required
}

// SignContext returns c as a compact JWS. It refuses, with an [*Error], a
// context that VerifyContext would refuse whatever the time.
func SignContext(signer Signer, c Context) (string, error) { return new(Contexts).Sign(signer, c) }

// Contexts signs contexts, of which many say the same of what may be done. The zero
// one is ready for use, by many goroutines.
type Contexts struct {
	mu   sync.Mutex
	read map[string]struct{} // texts of authorities that [powerbox.ParseAuthority] reads back
}

// Bounds of the memory: entries, and bytes of one.
const (
	maxAuthorities     = 1 << 10
	maxAuthorityMemory = 16 << 10
)

// Sign is [SignContext].
func (s *Contexts) Sign(signer Signer, c Context) (string, error) {
	var room [2 * usualPart]byte
	authority := c.Authority.AppendJSON(room[:0])
	err := c.refused()
	if err == nil {
		err = s.readable(authority)
	}
	if err != nil {
		return "", prefixed("context: ", err)
	}
	return sign(signer, signer.Public().algorithm.String(), typeContext, signer.Public().Thumbprint(), c.appendJSON(make([]byte, 0, 2*usualPart), authority))
}

// readable refuses an authority that the agent behind could not read.
func (s *Contexts) readable(authority []byte) error {
	s.mu.Lock()
	_, ok := s.read[string(authority)]
	s.mu.Unlock()
	if ok {
		return nil
	}
	v, err := powerbox.ParseValue(authority)
	if err == nil {
		_, err = powerbox.ParseAuthority(v)
	}
	if err != nil {
		return refuse(CodeMalformed, "authority: %v", err)
	}
	if len(authority) <= maxAuthorityMemory {
		s.mu.Lock()
		if s.read == nil || len(s.read) >= maxAuthorities {
			s.read = map[string]struct{}{}
		}
		s.read[string(authority)] = struct{}{}
		s.mu.Unlock()
	}
	return nil
}

// refused is why VerifyContext would refuse c whatever the time, except for its
// authority.
func (c *Context) refused() error {
	within := func(name, text string, least int) error {
		if n := len(text); n < least || n > maxIDBytes {
			return refuse(CodeMalformed, "%s; want a string of %d to %d bytes", name, least, maxIDBytes)
		}
		return nil
	}
	err := within("req, d", c.Digest, 1)
	for _, t := range c.texts() {
		least := 0 // where it is empty it is left out
		if t.required {
			least = 1
		}
		err = errors.Join(err, within(t.name, *t.text, least))
	}
	for name, h := range c.Handles {
		err = errors.Join(err, within("handle "+quote(name)+", id", h.ID, 1))
	}
	for _, d := range c.Delegated {
		err = errors.Join(err, within("delegated, agent", d.Agent, 1), within("delegated, capability", d.Capability, 1))
	}
	for _, l := range c.Labels {
		err = errors.Join(err, within("label, source", l.Source, 1))
	}
	iat, exp := c.IssuedAt.Unix(), c.Expires.Unix()
	if err == nil && (iat < 0 || exp > maxTime || exp <= iat || exp-iat > int64(MaxContextLifetime/time.Second)) {
		err = refuse(CodeLifetime, "exp is %d s after iat %d; want more than 0 and at most %s", exp-iat, iat, MaxContextLifetime)
	}
	return err
}

// ContextID identifies what a signed context says, for receivers that accept each context
// once. It leaves the signature out, since one of ES256 can be written in two ways (ATK-131).
func ContextID(compact string) [sha256.Size]byte {
	return sha256.Sum256([]byte(compact[:max(0, strings.LastIndexByte(compact, '.'))]))
}

// VerifyContext verifies the value of a Powerbox-Context header against the
// issuing keys of the agent: that it was signed for that audience, is good at
// that time, and belongs to that body. Errors are [*Error]: the agent refuses
// the request. An absent header is one.
func VerifyContext(compact string, keys KeySet, audience string, now time.Time, body []byte) (Context, error) {
	if compact == "" {
		return Context{}, refuse(CodeMissingClaim, "context: there is none; want it in the header Powerbox-Context, from the gateway")
	}
	j, err := parseJWS(compact, typeContext)
	if err != nil {
		return Context{}, prefixed("context: ", err)
	}
	if err := j.verifyContext(compact, keys); err != nil {
		return Context{}, prefixed("context: ", err)
	}
	c, err := parseContext(j.payload)
	if err != nil {
		return Context{}, prefixed("context: ", err)
	}
	if err := c.check(audience, now, body); err != nil {
		return Context{}, err
	}
	return c, nil
}

// verifyContext checks type and signature. An absent typ, which parseJWS lets
// pass, is not enough here.
func (j jws) verifyContext(compact string, keys KeySet) error {
	if headerType(compact) != typeContext {
		return refuse(CodeType, "header: want typ %q", typeContext)
	}
	candidates := keys.candidates(j.header)
	if len(candidates) == 0 {
		return refuse(CodeUnknownKey, "no key of the agent's issuer has the kid of the header; fetch its key set again")
	}
	var err error
	for _, key := range candidates {
		if err = j.verify(key); err == nil {
			return nil
		}
	}
	return err
}

// check compares a context with the request that it came with.
func (c Context) check(audience string, now time.Time, body []byte) error {
	switch {
	case audience == "" || c.Audience != audience:
		return refuse(CodeProofAudience, "context: aud is not %q", audience)
	case c.IssuedAt.After(now.Add(MaxIssuedAhead)):
		return refuse(CodeNotYetValid, "context: iat lies in the future; compare the clocks")
	case !now.Before(c.Expires):
		return refuse(CodeExpired, "context: exp has passed; it serves for one request")
	case c.Digest != DigestOf(body):
		return refuse(CodeProofRequest, "context: req is not for the body that was received")
	}
	return nil
}

// appendJSON appends the claims of c, in the order of their names.
func (c *Context) appendJSON(b, authority []byte) []byte {
	b = appendMember(append(b, '{'), "aud", c.Audience)
	b = append(append(b, `,"authority":`...), authority...)
	b = appendOptional(b, "basis", c.Basis)
	b = appendOptional(b, "capability", c.Capability)
	b = appendOptional(b, "decision", c.Decision)
	if len(c.Delegated) > 0 {
		b = append(b, `,"delegated":[`...)
		for i, d := range c.Delegated {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendOptional(appendMember(append(b, '{'), "agent", d.Agent), "capability", d.Capability), '}')
		}
		b = append(b, ']')
	}
	b = strconv.AppendInt(append(b, `,"exp":`...), c.Expires.Unix(), 10)
	if c.Handles != nil {
		b = append(b, `,"handles":{`...)
		for i, name := range slices.Sorted(maps.Keys(c.Handles)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(powerbox.String(name).AppendJSON(b), ":{"...)
			b = append(appendMember(b, "id", c.Handles[name].ID), ',')
			b = append(appendMember(b, "name", c.Handles[name].Name), '}')
		}
		b = append(b, '}')
	}
	b = appendOptional(b, "holder", c.Holder)
	b = strconv.AppendInt(append(b, `,"iat":`...), c.IssuedAt.Unix(), 10)
	b = appendOptional(b, "iss", c.Issuer)
	b = appendLabels(b, c.Labels)
	b = appendOptional(b, "mode", c.Mode)
	b = appendOptional(b, "principal", c.Principal)
	b = append(appendMember(append(b, `,"req":{`...), "d", c.Digest), '}')
	b = appendOptional(b, "root", c.Root)
	b = appendOptional(b, "task", c.Task)
	b = appendOptional(b, "tenant", c.Tenant)
	return append(b, '}')
}

func appendLabels(b []byte, labels []ContextLabel) []byte {
	for i, l := range labels {
		if i == 0 {
			b = append(b, `,"labels":[`...)
		} else {
			b = append(b, ',')
		}
		b = strconv.AppendBool(append(b, `{"confidential":`...), l.Confidential)
		b = appendOptional(b, "source", l.Source)
		b = append(appendOptional(b, "trust", trustOf[l.Untrusted]), '}')
	}
	if len(labels) > 0 {
		b = append(b, ']')
	}
	return b
}

// trustOf are the words for trusted and untrusted data.
var trustOf = map[bool]string{false: "trusted", true: "untrusted"}

// appendMember appends the member of an object whose name is the package's own.
func appendMember(b []byte, name, text string) []byte {
	b = append(append(append(b, '"'), name...), `":`...)
	return powerbox.String(text).AppendJSON(b)
}

// appendOptional appends a further member, where it is not empty.
func appendOptional(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	return appendMember(append(b, ','), name, text)
}

// contextText is a claim that is a string.
type contextText struct {
	name     string
	text     *string
	required bool
}

func (c *Context) texts() []contextText {
	return []contextText{
		{"iss", &c.Issuer, true},
		{"aud", &c.Audience, true},
		{"mode", &c.Mode, true},
		{"basis", &c.Basis, true},
		{"principal", &c.Principal, false},
		{"holder", &c.Holder, false},
		{"capability", &c.Capability, false},
		{"root", &c.Root, false},
		{"decision", &c.Decision, false},
		{"task", &c.Task, false},
		{"tenant", &c.Tenant, false},
	}
}

// parseContext reads claims. Unlike in a token, an unknown claim refuses: it
// could be a restriction, and both sides speak the version that typ names.
func parseContext(v powerbox.Value) (Context, error) {
	var c Context
	known := map[string]bool{"iat": true, "exp": true, "authority": true, "handles": true, "delegated": true, "labels": true, "req": true}
	r := claimReader{object: v}
	for _, t := range c.texts() {
		known[t.name] = true
		if _, ok := v.Get(t.name); ok || t.required {
			*t.text = r.text(t.name)
		}
	}
	members, _ := v.Members()
	for _, m := range members {
		if !known[m.Name] && r.err == nil {
			r.err = refuse(CodeMalformed, "claim %q is unknown", m.Name)
		}
	}
	c.IssuedAt = time.Unix(r.integer("iat", maxTime), 0).UTC()
	c.Expires = time.Unix(r.integer("exp", maxTime), 0).UTC()
	if life := c.Expires.Sub(c.IssuedAt); r.err == nil && (life <= 0 || life > MaxContextLifetime) {
		r.err = refuse(CodeLifetime, "exp is %s after iat; want more than 0 and at most %s", life, MaxContextLifetime)
	}
	r.contextRights(&c)
	if r.err != nil {
		return Context{}, r.err
	}
	return c, nil
}

// contextRights reads the claims that are objects.
func (r *claimReader) contextRights(c *Context) {
	if v, ok := r.get("req"); ok {
		inner := claimReader{object: v}
		if c.Digest = inner.text("d"); inner.err != nil {
			r.err = prefixed("req: ", inner.err)
		}
	}
	if v, ok := r.get("authority"); ok {
		var err error
		if c.Authority, err = powerbox.ParseAuthority(v); err != nil {
			r.err = refuse(CodeMalformed, "authority: %v", err)
		}
	}
	if _, ok := r.object.Get("handles"); ok {
		c.Handles = r.contextHandles()
	}
	if v, ok := r.object.Get("delegated"); ok {
		c.Delegated = r.contextDelegated(v)
	}
	if v, ok := r.object.Get("labels"); ok {
		c.Labels = r.contextLabels(v)
	}
}

func (r *claimReader) contextLabels(v powerbox.Value) []ContextLabel {
	elements, ok := v.Elements()
	if !ok && r.err == nil {
		r.err = refuse(CodeMalformed, "labels is JSON %s; want an array", v.Kind())
	}
	var out []ContextLabel
	for _, e := range elements {
		inner := claimReader{object: e}
		l := ContextLabel{Source: inner.text("source")}
		trust := inner.text("trust")
		confidential, _ := e.Get("confidential")
		members, _ := e.Members()
		l.Untrusted = trust != trustOf[false]
		if l.Confidential, ok = confidential.Truth(); !ok || trust != trustOf[l.Untrusted] || len(members) != 3 {
			inner.err = refuse(CodeMalformed, "want source, trust (trusted or untrusted) and confidential (true or false)")
		}
		if inner.err != nil && r.err == nil {
			r.err = prefixed("labels: ", inner.err)
		}
		out = append(out, l)
	}
	return out
}

func (r *claimReader) contextDelegated(v powerbox.Value) []ContextDelegation {
	elements, ok := v.Elements()
	if !ok && r.err == nil {
		r.err = refuse(CodeMalformed, "delegated is JSON %s; want an array", v.Kind())
	}
	var out []ContextDelegation
	for _, e := range elements {
		inner := claimReader{object: e}
		d := ContextDelegation{Agent: inner.text("agent"), Capability: inner.text("capability")}
		if inner.err != nil && r.err == nil {
			r.err = prefixed("delegated: ", inner.err)
		}
		out = append(out, d)
	}
	return out
}

func (r *claimReader) contextHandles() map[string]ContextHandle {
	v, _ := r.get("handles")
	members, ok := v.Members()
	if !ok && r.err == nil {
		r.err = refuse(CodeMalformed, "handles is JSON %s; want an object", v.Kind())
	}
	handles := make(map[string]ContextHandle, len(members))
	for _, m := range members {
		inner := claimReader{object: m.Value}
		h := ContextHandle{ID: inner.text("id"), Name: member(m.Value, "name")}
		if inner.err != nil {
			r.err = prefixed("handle "+quote(m.Name)+": ", inner.err)
		}
		handles[m.Name] = h
	}
	return handles
}

// headerType returns the typ of a JWS that parseJWS accepted.
func headerType(compact string) string {
	first, _, _ := strings.Cut(compact, ".")
	head, _ := parsePart("header", first, powerbox.Limits{Bytes: maxHeaderBytes, Depth: 16})
	return member(head, "typ")
}
