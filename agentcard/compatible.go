package agentcard

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

// Needs are what a caller brings along and what its task asks of the agent. The
// zero Needs ask for version 1.0 of the protocol and nothing else.
type Needs struct {
	Versions   []string `json:"versions,omitempty"`    // of the protocol, that the caller speaks; default 1.0. "" is 0.3, as in the header
	Bindings   []string `json:"bindings,omitempty"`    // that it speaks; default JSONRPC, HTTP+JSON and GRPC
	Features   []string `json:"features,omitempty"`    // that the task relies on, by name, vendor's name or extension URI
	Skills     []string `json:"skills,omitempty"`      // ids that the agent must have
	Inputs     []string `json:"inputs,omitempty"`      // media types that it must take
	Outputs    []string `json:"outputs,omitempty"`     // media types of which it must give one at least
	Extensions []string `json:"extensions,omitempty"`  // URIs that the caller speaks, for agents that demand some
	Schemes    []string `json:"schemes,omitempty"`     // kinds of security scheme that the caller can use; none: any
	Strict     bool     `json:"strict,omitempty"`      // refuse every card with an error, and not only those that cannot be relied on
	Digest     string   `json:"card_digest,omitempty"` // the only card that will do (see Card.Digest)
}

// maxNeeds bounds every list of needs.
const maxNeeds = 256

// ParseNeeds reads needs from JSON; a member that needs do not have is an error.
func ParseNeeds(raw []byte) (Needs, error) {
	var n Needs
	if err := DecodeStrict(raw, &n); err != nil {
		return Needs{}, fmt.Errorf("needs: %w", err)
	}
	return n, n.check()
}

// DecodeStrict decodes one JSON value of at most [MaxBytes] into a Go value. It
// refuses members twice, members that the target does not have exactly so, and
// data behind the value.
func DecodeStrict(raw []byte, into any) error {
	if len(raw) > MaxBytes {
		return fmt.Errorf("%d bytes; want at most %d", len(raw), MaxBytes)
	}
	return json.Unmarshal(raw, into, json.RejectUnknownMembers(true))
}

func (n Needs) check() error {
	for name, list := range map[string][]string{
		"versions": n.Versions, "bindings": n.Bindings, "features": n.Features, "skills": n.Skills, "inputs": n.Inputs,
		"outputs": n.Outputs, "extensions": n.Extensions, "schemes": n.Schemes,
	} {
		if len(list) > maxNeeds {
			return fmt.Errorf("needs: %s lists %d; want at most %d", name, len(list), maxNeeds)
		}
	}
	for _, v := range n.Versions {
		if _, err := HeaderVersion(v); err != nil {
			return fmt.Errorf("needs: versions: %w", err)
		}
	}
	for _, f := range n.Features {
		if _, known := LookupFeature(f); !known && !isVendorName(f) {
			var names []string
			for _, f := range features {
				names = append(names, f.Name)
			}
			return fmt.Errorf("needs: features has %q; want one of %s, a vendor's such as com.example/fast_lane, or the URI of an extension", f, strings.Join(names, ", "))
		}
	}
	return nil
}

// The codes of reasons for which a card is not compatible.
const (
	NeedCard      = "card_unusable"
	needDigest    = "card_changed"
	NeedVersion   = "protocol_version"
	NeedBinding   = "protocol_binding"
	needFeature   = "feature"
	needSkill     = "skill"
	needInput     = "input_mode"
	needOutput    = "output_mode"
	needExtension = "required_extension"
	needScheme    = "security_scheme"
)

// Reason is one thing for which a card is not compatible.
type Reason struct {
	Code    string `json:"code"`
	Subject string `json:"subject,omitempty"` // the feature, skill, version and so on
	Pointer string `json:"pointer,omitempty"` // where the card says so, if it says anything
	Message string `json:"message"`
}

// Answer says whether an agent will do, before anything is sent to it.
type Answer struct {
	Compatible bool      `json:"compatible"`
	Agent      string    `json:"agent"`
	Reasons    []Reason  `json:"reasons"`                   // why not, all of them
	Warnings   []string  `json:"warnings"`                  // what the task relies on and should not
	Interface  Interface `json:"interface,omitzero"`        // to call, where it is compatible
	Version    Version   `json:"protocol_version,omitzero"` // to speak there: the highest that both do
	Digest     string    `json:"card_digest"`
}

// Compatible holds a card against what a caller speaks and its task needs. The
// answer is a function of the two, and has every reason (CARD-8, CARD-10). Where
// it is no, no request is to be sent.
func Compatible(c Card, n Needs) Answer {
	a := Answer{Agent: c.Name(), Reasons: []Reason{}, Warnings: []string{}, Digest: c.Digest()}
	if err := n.check(); err != nil {
		a.reason("needs", "", "", "%v", err)
		return a
	}
	a.usable(c, n)
	a.meet(c, n)
	for _, name := range n.Features {
		a.feature(c, name)
	}
	a.skills(c, n)
	a.modes(c, n)
	for _, uri := range c.RequiredExtensions() {
		if !slices.Contains(n.Extensions, uri) {
			a.reason(needExtension, uri, "", "the agent takes no call of who does not speak the extension %s", uri)
		}
	}
	a.schemes(c, n)
	if a.Compatible = len(a.Reasons) == 0; !a.Compatible {
		a.Interface, a.Version = Interface{}, Version{}
	}
	return a
}

func (a *Answer) reason(code, subject, pointer, format string, args ...any) {
	a.Reasons = append(a.Reasons, Reason{code, subject, pointer, fmt.Sprintf(format, args...)})
}

// usable asks whether the card can be relied on at all.
func (a *Answer) usable(c Card, n Needs) {
	if c.root == nil && len(c.problems) == 0 {
		a.reason(NeedCard, "", "", "there is no card")
	}
	for _, p := range c.problems {
		if p.Severity == Error && (n.Strict || slices.Contains(misread, p.Code)) {
			a.reason(NeedCard, p.Code, p.Pointer, "%s", p.Message)
		}
	}
	if n.Digest != "" && n.Digest != a.Digest {
		a.reason(needDigest, n.Digest, "", "the card is another than the one that was agreed to: %s", a.Digest)
	}
}

// meet chooses interface and version: the highest version that both speak, and of
// interfaces that have it the first of the card.
func (a *Answer) meet(c Card, n Needs) {
	var mine []Version
	for _, s := range n.Versions {
		v, _ := HeaderVersion(s) // they were checked
		mine = append(mine, v)
	}
	if len(mine) == 0 {
		mine = []Version{v10}
	}
	slices.SortFunc(mine, func(v, w Version) int { return w.compare(v) })
	spoken := n.Bindings
	if len(spoken) == 0 {
		spoken = bindings
	}
	bound := slices.ContainsFunc(c.faces, func(i Interface) bool { return slices.Contains(spoken, i.Binding) })
	if !bound {
		a.reason(NeedBinding, strings.Join(spoken, ", "), "", "the caller speaks %s; the agent has %s", strings.Join(spoken, ", "), bindingsOf(c))
	}
	spoke := false
	for _, v := range mine {
		for _, i := range c.faces {
			if i.URL == "" || !i.Speaks(v) {
				continue
			}
			if spoke = true; slices.Contains(spoken, i.Binding) {
				a.Interface, a.Version = i, v.line()
				return
			}
		}
	}
	switch {
	case !spoke:
		a.reason(NeedVersion, join(mine), "", "the caller speaks %s; the agent speaks %s", join(mine), versionsOf(c))
	case bound:
		a.reason(NeedVersion, join(mine), "", "no interface speaks both a version and a binding of the caller's: %s", facesOf(c))
	}
}

func join(vs []Version) string {
	texts := make([]string, len(vs))
	for i, v := range vs {
		texts[i] = v.String()
	}
	return strings.Join(texts, ", ")
}

func bindingsOf(c Card) string {
	var out []string
	for _, i := range c.faces {
		if !slices.Contains(out, i.Binding) {
			out = append(out, i.Binding)
		}
	}
	return orNone(out)
}

func versionsOf(c Card) string {
	var out []string
	for _, i := range c.faces {
		if s := i.SpokenVersions(); s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	if c.explicit {
		return orNone(out) + " (declared range: " + c.ranged.String() + ")"
	}
	return orNone(out)
}

func facesOf(c Card) string {
	var out []string
	for _, i := range c.faces {
		out = append(out, i.Binding+" "+i.SpokenVersions())
	}
	return orNone(out)
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// feature asks for one feature. Supported means declared (CARD-2).
func (a *Answer) feature(c Card, name string) {
	d, named := c.declaration(name)
	switch {
	case named && d.Supported && d.Tier == Deprecated:
		a.Warnings = append(a.Warnings, fmt.Sprintf("%s is deprecated; %s takes its place", name, d.Replacement))
	case named && d.Supported:
	case named && d.Tier == Implicit:
		a.reason(needFeature, name, "", "%s is new in 1.0, and the agent speaks %s alone", name, strings.Join(c.Dialects(), ", "))
	case len(d.Pointers) > 0:
		a.reason(needFeature, name, d.Pointers[0], "the agent says that it has no %s", name)
	case name == "streaming_message" && c.Supports("streaming"):
		a.reason(needFeature, name, "/capabilities/streaming", "the agent does not declare streaming_message; capabilities.streaming is about task events and does not stand for it")
	default:
		a.reason(needFeature, name, "", "the agent does not declare %s", name)
	}
}

func (a *Answer) skills(c Card, n Needs) {
	have := map[string]bool{}
	for _, s := range c.Skills() {
		have[s.ID] = true
	}
	for _, id := range n.Skills {
		if !have[id] {
			a.reason(needSkill, id, "", "the agent has no skill %q", id)
		}
	}
}

// modes asks for media types: of the skills that are needed where they say any,
// of the card otherwise.
func (a *Answer) modes(c Card, n Needs) {
	takes := func(own []string, fallback ...string) []string {
		if len(own) > 0 {
			return own
		}
		return c.root.get(fallback...).strings()
	}
	check := func(where string, in, out []string) {
		for _, m := range n.Inputs {
			if !slices.Contains(in, m) {
				a.reason(needInput, m, "", "%s does not take %s but %s", where, m, orNone(in))
			}
		}
		if len(n.Outputs) > 0 && !slices.ContainsFunc(n.Outputs, func(m string) bool { return slices.Contains(out, m) }) {
			a.reason(needOutput, strings.Join(n.Outputs, ", "), "", "%s gives none of %s but %s", where, strings.Join(n.Outputs, ", "), orNone(out))
		}
	}
	if len(n.Skills) == 0 {
		check("the agent", takes(nil, "defaultInputModes", "default_input_modes"), takes(nil, "defaultOutputModes", "default_output_modes"))
		return
	}
	for _, s := range c.Skills() {
		if slices.Contains(n.Skills, s.ID) {
			check("the skill "+s.ID, takes(s.InputModes, "defaultInputModes", "default_input_modes"), takes(s.OutputModes, "defaultOutputModes", "default_output_modes"))
		}
	}
}

// schemes asks whether the caller can meet one of the card's security
// requirements, where it says what it can do.
func (a *Answer) schemes(c Card, n Needs) {
	if len(n.Schemes) == 0 {
		return
	}
	kinds := c.schemeKinds()
	wanted, met := c.requirements(), false
	var texts []string
	for _, names := range wanted {
		all := true
		for _, name := range names {
			if !slices.Contains(n.Schemes, kinds[name]) && !slices.Contains(n.Schemes, name) {
				all = false
			}
		}
		met = met || all
		texts = append(texts, strings.Join(names, " and "))
	}
	if len(wanted) > 0 && !met {
		a.reason(needScheme, strings.Join(n.Schemes, ", "), "", "the agent asks for %s, and the caller can do %s", strings.Join(texts, ", or "), strings.Join(n.Schemes, ", "))
	}
}

// requirements are the security requirements of the card, each the names of
// schemes that are all wanted; one of them must be met.
func (c Card) requirements() [][]string {
	var out [][]string
	add := func(o *node) {
		var names []string
		for _, m := range o.object() {
			names = append(names, m.name)
		}
		slices.Sort(names)
		out = append(out, names)
	}
	for _, r := range c.root.get("securityRequirements", "security_requirements").elements() {
		add(r.get("schemes"))
	}
	if len(out) == 0 {
		for _, r := range c.root.get("security").elements() {
			add(r)
		}
	}
	return out
}

// schemeKinds are the kinds of the card's security schemes by name, in the words
// of 0.3: apiKey, http, oauth2, openIdConnect, mutualTLS.
func (c Card) schemeKinds() map[string]string {
	now := map[string]string{
		"apiKeySecurityScheme": "apiKey", "httpAuthSecurityScheme": "http", "oauth2SecurityScheme": "oauth2",
		"openIdConnectSecurityScheme": "openIdConnect", "mtlsSecurityScheme": "mutualTLS",
	}
	out := map[string]string{}
	for _, m := range c.root.get("securitySchemes", "security_schemes").object() {
		if kind := m.value.get("type").str(); kind != "" {
			out[m.name] = kind
		}
		for _, k := range m.value.object() {
			if f, ok := schemeForm.find(k.name); ok {
				out[m.name] = now[f.name]
			}
		}
	}
	return out
}
