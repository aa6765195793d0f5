package agentcard

import (
	"encoding/base64"
	"math"
	"mime"
	"strconv"
	"strings"

	"github.com/powerbox-project/powerbox"
)

// vendorForm and contractForm are the params of the contract extension
// (docs/reference/extension/capability-contract.md).
var (
	vendorForm = &form{name: "the vendor feature", fields: []field{
		{name: "supported", shape: flag, known: ours, required: ours},
		{name: "description", known: ours, required: ours},
		{name: "schema", shape: free, known: ours},
		{name: "params", shape: free, known: ours},
	}}
	contractForm = &form{name: "the contract", fields: []field{
		{name: "pause_resume", shape: flag, known: ours},
		{name: "streaming_message", shape: flag, known: ours},
		{name: "push_notifications", shape: flag, known: ours},
		{name: "context_reuse", shape: flag, known: ours},
		{name: "multi_tenant", shape: flag, known: ours},
		{name: "message_history_injection", shape: flag, known: ours},
		{name: "artifact_streaming", shape: flag, known: ours},
		{name: "min_protocol_version", known: ours},
		{name: "max_protocol_version", known: ours},
		{name: "interfaces", shape: objects, known: ours, of: &form{name: "the contract's interface", fields: []field{
			{name: "url", known: ours, required: ours},
			{name: "binding", known: ours},
			{name: "protocol_versions", shape: texts, known: ours, required: ours},
		}}},
		{name: "vendor", shape: dictionary, of: vendorForm, known: ours},
	}}
)

// features looks at what the card declares (CARD-2 to CARD-5).
func (l *linter) features() {
	for _, d := range l.card.declared {
		for i, p := range d.Pointers {
			if len(d.said) > 0 && d.said[i] != d.said[0] {
				l.fail(p, codeContradiction, "%s is %t here and %t at %s; say it once", d.Name, d.said[i], d.said[0], d.Pointers[0])
			}
		}
		if d.Tier == Deprecated && d.Supported && d.Name != "state_transition_history" {
			l.warn(d.Pointers[0], codeDeprecated, "%s is deprecated; %s takes its place", d.Name, d.Replacement)
		}
		if d.Supported && !d.Signed && l.card.Signed() {
			l.warn(d.Pointers[0], codeNotSigned, "no signature of A2A 1.0 covers %s here; declare it in the contract extension", d.Name)
		}
	}
	if l.card.Supports("streaming_message") && !l.card.Supports("streaming") {
		l.warn("/capabilities/streaming", codeUndeclared, "streaming_message is declared, and streaming is not, which messages would be streamed by")
	}
	if l.card.explicit && l.card.Signed() && l.params.get("min_protocol_version", "max_protocol_version") == nil {
		l.warn("", codeNotSigned, "no signature of A2A 1.0 covers the version range of the card itself; declare it in the contract extension")
	}
	for i, face := range l.card.faces {
		if face.Tenant != "" && !l.card.Supports("multi_tenant") {
			l.warn(at(atIndex("/supportedInterfaces", i), "tenant"), codeUndeclared, "the interface is for a tenant, and multi_tenant is not declared")
		}
	}
}

// extensions looks at what the card extends the protocol by.
func (l *linter) extensions() {
	seen := map[string]string{}
	for i, e := range l.card.root.get("capabilities").get("extensions").elements() {
		here, uri := atIndex("/capabilities/extensions", i), e.get("uri").str()
		if uri != "" && !isAbsolute(uri) {
			l.fail(at(here, "uri"), codeExtension, "extension %q; want an absolute URI, by which alone it is known", clip(uri))
		}
		if first, twice := seen[uri]; twice && uri != "" {
			l.fail(here, codeTwice, "the extension is declared already, at %s", first)
			continue
		}
		seen[uri] = here
		if uri != ContractURI {
			continue
		}
		if e.get("params") == nil {
			l.warn(here, codeMissing, "the contract extension has no params, and so declares nothing")
			continue
		}
		l.contract(at(here, "params"), e.get("params"))
	}
}

// contract looks at the params of the contract extension.
func (l *linter) contract(pointer string, params *node) {
	speaks := l.speaks
	l.speaks = ours
	l.walk(pointer, params, contractForm)
	l.speaks = speaks
	for _, m := range params.get("vendor").object() {
		if !isVendorName(m.name) {
			l.fail(at(at(pointer, "vendor"), m.name), codeVendor, "vendor feature %q; want a namespace and a name, such as com.example/fast_lane, or a URI", clip(m.name))
		}
		if _, taken := LookupFeature(m.name); taken {
			l.fail(at(at(pointer, "vendor"), m.name), codeVendor, "%s is a feature of the contract, no vendor's", m.name)
		}
	}
	known := map[string]bool{}
	for _, f := range l.card.faces {
		known[f.URL+" "], known[f.URL+" "+f.Binding] = true, true
	}
	for i, e := range params.get("interfaces").elements() {
		if !known[e.get("url").str()+" "+e.get("binding").str()] {
			l.fail(at(atIndex(at(pointer, "interfaces"), i), "url"), codeContradiction, "the card has no such interface")
		}
	}
}

// skills looks at the skills of the card.
func (l *linter) skills() {
	seen := map[string]string{}
	for i, s := range l.card.root.get("skills").elements() {
		here, id := atIndex("/skills", i), s.get("id").str()
		if first, twice := seen[id]; twice && id != "" {
			l.fail(at(here, "id"), codeSkill, "two skills have the id %q; the other is at %s", clip(id), first)
		} else {
			seen[id] = here
		}
		l.modes(here, s)
		l.requirements(here, s)
	}
}

// modes checks media types (4.4.1: they should be media types).
func (l *linter) modes(pointer string, n *node) {
	for _, name := range []string{"defaultInputModes", "defaultOutputModes", "inputModes", "outputModes"} {
		for i, e := range n.get(name).elements() {
			if !e.is('"') || e.text == "" {
				continue
			}
			if kind, _, err := mime.ParseMediaType(e.text); err != nil || !strings.Contains(kind, "/") {
				l.warn(atIndex(at(pointer, name), i), codeMedia, "%q is no media type; write one such as text/plain or application/json", clip(e.text))
			}
		}
	}
}

// security looks at the schemes and what asks for them.
func (l *linter) security() {
	l.requirements("", l.card.root)
	for _, m := range l.card.root.get("securitySchemes", "security_schemes").object() {
		here := at("/securitySchemes", m.name)
		flows, flowsAt := m.value.get("flows"), at(here, "flows")
		if flows == nil {
			flows, flowsAt = m.value.get("oauth2SecurityScheme", "oauth2_security_scheme").get("flows"), at(at(here, "oauth2SecurityScheme"), "flows")
		}
		for _, flow := range flows.object() {
			where := at(flowsAt, flow.name)
			if flow.name == "implicit" || flow.name == "password" {
				l.warn(where, codeDeprecated, "the OAuth flow %s is deprecated; use authorizationCode with PKCE, clientCredentials or deviceCode", flow.name)
			}
			for _, e := range flow.value.object() {
				if strings.HasSuffix(strings.ToLower(e.name), "url") {
					l.web(at(where, e.name), e.value.str())
				}
			}
		}
		for _, kind := range m.value.object() {
			if u := kind.value.get("openIdConnectUrl", "open_id_connect_url").str(); u != "" {
				l.web(at(at(here, kind.name), "openIdConnectUrl"), u)
			}
			if u := kind.value.get("oauth2MetadataUrl", "oauth2_metadata_url").str(); u != "" {
				l.web(at(at(here, kind.name), "oauth2MetadataUrl"), u)
			}
		}
		l.web(at(here, "openIdConnectUrl"), m.value.get("openIdConnectUrl").str())
	}
}

// requirements asks that every scheme that is required exists.
func (l *linter) requirements(pointer string, n *node) {
	for i, r := range n.get("securityRequirements", "security_requirements").elements() {
		here := at(atIndex(at(pointer, "securityRequirements"), i), "schemes")
		for _, m := range r.get("schemes").object() {
			l.scheme(at(here, m.name), m.name)
		}
	}
	for i, r := range n.get("security").elements() {
		for _, m := range r.object() {
			l.scheme(at(atIndex(at(pointer, "security"), i), m.name), m.name)
		}
	}
}

func (l *linter) scheme(pointer, name string) {
	if !l.schemes[name] {
		l.fail(pointer, codeScheme, "the security scheme %q is required and not defined in securitySchemes", clip(name))
	}
}

// signatures looks at the form of the card's signatures; [Verify] checks them.
func (l *linter) signatures() {
	for i, s := range l.card.root.get("signatures").elements() {
		here := at(atIndex("/signatures", i), "protected")
		raw, err := base64.RawURLEncoding.Strict().DecodeString(s.get("protected").str())
		header, errTree := readTree(raw)
		if err != nil || errTree != nil || !header.is('{') {
			if s.get("protected").str() != "" {
				l.fail(here, codeSignature, "the protected header is no JSON object in base64url without padding")
			}
			continue
		}
		for _, name := range []string{"alg", "kid"} {
			if header.get(name).str() == "" {
				l.fail(here, codeSignature, "the protected header has no %s, which A2A 1.0 requires (section 8.4.2)", name)
			}
		}
		if header.get("alg").str() == "none" {
			l.fail(here, codeSignature, "alg none is no signature")
		}
		if header.get("jku") != nil || header.get("x5u") != nil || header.get("jwk") != nil || header.get("x5c") != nil {
			l.warn(here, codeSignature, "the header names or carries a key; it adds to no reader's trust, which is in keys that were pinned")
		}
	}
}

// keepsNumber reports whether a 64-bit float, which is what readers make of it,
// is exactly the number that was written.
func keepsNumber(written string) bool {
	f, err := strconv.ParseFloat(written, 64)
	if err != nil || f == math.Trunc(f) && math.Abs(f) > 1<<53 {
		return false
	}
	a, errA := powerbox.ParseDecimal(written)
	b, errB := powerbox.ParseDecimal(strconv.FormatFloat(f, 'g', -1, 64))
	return errA == nil && errB == nil && a == b
}
