package holder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/agentcard"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/token"
)

// cardPath is where a card is found below an agent's base URL (A2A 1.0,
// section 8.2).
const cardPath = "/.well-known/agent-card.json"

// Agent is what a card says about capabilities.
type Agent struct {
	Base       string // where the card was found, without the well-known path
	Name       string
	URL        string // where the agent takes JSON-RPC
	Tenant     string // that the card has calls there name (A2A 1.0, AgentInterface), "" for none
	Negotiates bool   // whether the card has our extension; the fields below are empty where not
	Issuer     string // public URL of the agent: the audience of proofs, the issuer of capabilities
	Grants     []Grant
	Skills     map[string]Skill
	Holder     token.PublicKey // key to delegate to; zero where the agent publishes none

	card agentcard.Card
	by   a2a.Binding // of URL
	old  bool        // whether URL is spoken to in 0.3
}

// MCP reports whether it is an MCP server, whose skills are tools.
func (a Agent) MCP() bool { return a.by == a2a.MCP }

// Card is the agent's card, with all that it declares.
func (a Agent) Card() agentcard.Card { return a.card }

// saidWith is what a server says beside a status, where it says it in one line of text.
func saidWith(response *http.Response, body []byte) string {
	said := strings.TrimSpace(string(body))
	if !strings.HasPrefix(response.Header.Get("Content-Type"), "text/plain") || said == "" || len(said) > 512 || strings.ContainsFunc(said, unicode.IsControl) {
		return ""
	}
	return ": " + said
}

// Fits says whether the agent will do for a task, by its card, before anything is
// sent to it (CARD-8). What this client speaks is filled in: version 1.0 over
// JSON-RPC, and the extensions of capability negotiation and authorization.
func (a Agent) Fits(task agentcard.Needs) agentcard.Answer {
	task.Versions, task.Bindings = []string{a2a.Version1}, []string{a2a.JSONRPC.String()}
	task.Extensions = append(slices.Clone(task.Extensions), a2a.ExtensionURI, a2a.AuthorizationURI)
	return agentcard.Compatible(a.card, task)
}

// Grant is one entry of capabilityGrants (SEP-1).
type Grant struct {
	ID, Description string
	Operations      []string // as the wire has them, or "*" for all that are configured
	Attenuable      bool
	Requires        []string // grants that it is issued together with only
	Legacy          bool     // wraps a service without capability support
}

// Skill says what a skill of the agent is in its authority.
type Skill struct {
	Operation powerbox.Operation
	Handle    string // argument that takes a handle; "" for none
}

// Discover fetches the card of the agent at a base URL. An agent whose card
// does not have our extension is returned with Negotiates false. A card that
// says something about capabilities that cannot be understood is an error, and
// so is one that would have proofs made for another agent.
func (c *Client) Discover(ctx context.Context, base string) (Agent, error) {
	if err := c.reaches(); err != nil {
		return Agent{}, err
	}
	base = strings.TrimRight(base, "/")
	if !strings.Contains(base, "://") {
		return Agent{}, fmt.Errorf("holder: the agent's URL is %q; want one such as https://powerbox.example.org/agents/documents", base)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+cardPath, nil)
	if err != nil {
		return Agent{}, fmt.Errorf("holder: card: %w", err)
	}
	request.Header.Set("Accept", "application/json")
	response, err := c.HTTP.Do(request)
	if err != nil {
		return Agent{}, fmt.Errorf("holder: the agent's card was not fetched: %w; check the agent's URL, and that its server runs", err)
	}
	defer func() { _ = response.Body.Close() }() // it was read; nothing is lost
	raw, err := io.ReadAll(io.LimitReader(response.Body, a2a.MaxCardBytes+1))
	switch {
	case err != nil:
		return Agent{}, fmt.Errorf("holder: card at %s: %w", base, err)
	case response.StatusCode == http.StatusNotFound:
		return Agent{}, fmt.Errorf("holder: there is no agent card at %s: HTTP status %s%s; correct the agent's URL. An MCP server has a card at its URL behind Powerbox", base, response.Status, saidWith(response, raw))
	case response.StatusCode != http.StatusOK:
		return Agent{}, fmt.Errorf("holder: card at %s: HTTP status %s; want 200%s", base, response.Status, saidWith(response, raw))
	}
	return ReadAgent(base, raw)
}

// ReadAgent reads the card that was found at a base URL, as [Client.Discover]
// does.
func ReadAgent(base string, raw []byte) (Agent, error) {
	a, err := readAgent(strings.TrimRight(base, "/"), raw)
	if err != nil {
		return Agent{}, fmt.Errorf("holder: card at %s: %w", base, err)
	}
	return a, nil
}

func readAgent(base string, raw []byte) (Agent, error) {
	view, err := a2a.ReadCard(raw)
	if err != nil {
		return Agent{}, err
	}
	// An agent that is protected takes the methods of the extension where it takes
	// HTTP+JSON, too.
	at, ok := view.Interface(a2a.JSONRPC, a2a.Version1, "")
	by := a2a.JSONRPC
	for _, binding := range []a2a.Binding{a2a.JSONRPC, a2a.HTTPJSON, a2a.MCP} {
		if !ok {
			by = binding
			at, ok = view.Interface(binding, "", "")
		}
	}
	if !ok {
		by = a2a.GRPC
	}
	a := Agent{Base: base, Name: view.Name, URL: at.URL, Tenant: at.Tenant, by: by, old: strings.HasPrefix(at.Version, a2a.Version03)}
	a.card, _ = agentcard.Lint(raw, false) // it keeps its problems, which Fits looks at
	if !ok && !view.Protectable() {
		return Agent{}, a2a.ErrNoInterface
	}
	card, err := powerbox.DecodeValue(raw, powerbox.Limits{Bytes: a2a.MaxCardBytes, Depth: 64})
	if err != nil {
		return Agent{}, err
	}
	params, ok := extensionParams(card)
	if !ok {
		return a, nil
	}
	if len(view.Holder) > 0 {
		if a.Holder, err = token.ParsePublicKey(view.Holder); err != nil {
			return Agent{}, fmt.Errorf("params.holder: %w", err)
		}
	}
	issuer, ok := params.Get("issuer")
	if !ok {
		// The agent itself publishes its key here; what negotiates for it
		// stands in front of it, and says so.
		return a, nil
	}
	a.Negotiates = true
	a.Issuer, _ = issuer.Text()
	if a.URL == "" {
		a.URL = a.Issuer // it takes the methods of the extension there, whatever else
	}
	if err := a.checkIssuer(); err != nil {
		return Agent{}, err
	}
	if a.Skills, err = readSkills(params); err != nil {
		return Agent{}, err
	}
	a.Grants, err = readGrants(params)
	return a, err
}

func extensionParams(card powerbox.Value) (powerbox.Value, bool) {
	capabilities, _ := card.Get("capabilities")
	list, _ := capabilities.Get("extensions")
	elements, _ := list.Elements()
	for _, e := range elements {
		if textOf(e, "uri") == ExtensionURI {
			params, ok := e.Get("params")
			return params, ok
		}
	}
	return powerbox.Value{}, false
}

// checkIssuer refuses a card that speaks for another agent: proofs are made for the issuer.
// So the card must be found at the issuer, or at a skill's URL below it, and calls must go to
// the issuer or below it. A proof of gRPC names the issuer and no address, so any agent could
// present it at the issuer (ATK-156).
func (a Agent) checkIssuer() error {
	u, err := url.Parse(a.Issuer)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("params.issuer %q is no http or https URL", a.Issuer)
	}
	issuer := strings.TrimRight(a.Issuer, "/")
	if a.Base != issuer && !strings.HasPrefix(a.Base, issuer+"/skills/") {
		return fmt.Errorf("it was found at %q and speaks for %q; if you want that agent, use its URL", a.Base, a.Issuer)
	}
	if a.URL != a.Issuer && !strings.HasPrefix(a.URL, issuer+"/") {
		return fmt.Errorf("params.issuer is %q, but calls go to %q; want the URL of the calls or one above it", a.Issuer, a.URL)
	}
	return nil
}

func readSkills(params powerbox.Value) (map[string]Skill, error) {
	v, _ := params.Get("skills")
	members, _ := v.Members()
	skills := make(map[string]Skill, len(members))
	for _, m := range members {
		op, err := powerbox.ParseOperation(textOf(m.Value, "operation"))
		if err != nil {
			return nil, fmt.Errorf("params.skills.%s.operation: %w", m.Name, err)
		}
		skills[m.Name] = Skill{Operation: op, Handle: textOf(m.Value, "handle")}
	}
	return skills, nil
}

func readGrants(params powerbox.Value) ([]Grant, error) {
	v, _ := params.Get("capabilityGrants")
	elements, _ := v.Elements()
	var grants []Grant
	for i, e := range elements {
		g := Grant{
			ID: textOf(e, "id"), Description: textOf(e, "description"),
			Operations: textsOf(e, "operations"), Requires: textsOf(e, "requires"),
			Attenuable: truthOf(e, "attenuable"), Legacy: truthOf(e, "legacy"),
		}
		if g.ID == "" {
			return nil, fmt.Errorf("params.capabilityGrants[%d].id is missing", i)
		}
		grants = append(grants, g)
	}
	return grants, nil
}

func textOf(v powerbox.Value, name string) string {
	m, _ := v.Get(name)
	s, _ := m.Text()
	return s
}

func textsOf(v powerbox.Value, name string) []string {
	m, _ := v.Get(name)
	elements, _ := m.Elements()
	var all []string
	for _, e := range elements {
		if s, ok := e.Text(); ok {
			all = append(all, s)
		}
	}
	return all
}

func truthOf(v powerbox.Value, name string) bool {
	m, _ := v.Get(name)
	truth, ok := m.Truth()
	return ok && truth
}

// errNotOffered says that nothing on a card meets the need.
var errNotOffered = errors.New("the card offers no grant for it")

// Needs returns the grants, and the operations in them, that calling those
// skills takes, so that a request can name exactly them.
func (a Agent) Needs(skills ...string) (grants, operations []string, err error) {
	for _, name := range skills {
		s, ok := a.Skills[name]
		if !ok {
			return nil, nil, fmt.Errorf("holder: skill %q of %s maps to no operation; it has %s", name, a.Base, strings.Join(a.skillNames(), ", "))
		}
		g, operation, ok := a.grantOf(s.Operation)
		if !ok {
			return nil, nil, fmt.Errorf("holder: skill %q of %s: %w", name, a.Base, errNotOffered)
		}
		if !slices.Contains(grants, g.ID) {
			grants = append(grants, g.ID)
		}
		if !slices.Contains(operations, operation) {
			operations = append(operations, operation)
		}
	}
	return grants, operations, nil
}

func (a Agent) skillNames() []string {
	var names []string
	for name := range a.Skills {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// grantOf finds the grant that an operation is of. Qualified names end in the
// ids of grant and operation (SEP-25).
func (a Agent) grantOf(op powerbox.Operation) (Grant, string, bool) {
	for _, g := range a.Grants {
		for _, name := range g.Operations {
			if strings.HasSuffix(op.String(), "/"+g.ID+"/"+name) {
				return g, name, true
			}
		}
		if _, name, ok := strings.Cut(op.String(), "/"+g.ID+"/"); ok && slices.Contains(g.Operations, "*") {
			return g, name, true
		}
	}
	return Grant{}, "", false
}

// prefer replaces a legacy grant by an attenuable one that has every operation
// that is wanted of it (SEP-3).
func (a Agent) prefer(grants, operations []string) []string {
	var out []string
	for _, id := range grants {
		g, ok := a.grant(id)
		if ok && g.Legacy {
			wanted := operations
			if len(wanted) == 0 {
				wanted = g.Operations
			}
			if better := slices.IndexFunc(a.Grants, func(o Grant) bool { return o.Attenuable && !o.Legacy && o.has(wanted) }); better >= 0 {
				id = a.Grants[better].ID
			}
		}
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

func (a Agent) grant(id string) (Grant, bool) {
	i := slices.IndexFunc(a.Grants, func(g Grant) bool { return g.ID == id })
	if i < 0 {
		return Grant{}, false
	}
	return a.Grants[i], true
}

func (g Grant) has(operations []string) bool {
	return slices.Contains(g.Operations, "*") ||
		!slices.ContainsFunc(operations, func(o string) bool { return !slices.Contains(g.Operations, o) })
}
