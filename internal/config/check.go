package config

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/trust"
)

const (
	minimumDevToken    = 8
	maximumProofWindow = 5 * time.Minute // proofs are remembered for twice as long
	minimumPeriod      = 100 * time.Millisecond
	maximumPeriod      = time.Hour
	maximumLifetime    = 90 * 24 * time.Hour // of a token, in the token draft
)

// complete fills in the defaults that follow from other settings. Written says
// whether the file has a value at a path.
func (c *Config) complete(written func(path string) bool) {
	for i := range c.Agents {
		if g := &c.Agents[i].GRPC; g.Address == "" {
			g.Address = g.Listen
		}
		if c.Agents[i].Mode == "" {
			c.Agents[i].Mode = c.Defaults.Mode
		}
	}
	for agent, offers := range c.Offers {
		for i := range offers {
			if offers[i].Legacy && !written(fmt.Sprintf("offers.%s[%d].attenuable", agent, i)) {
				offers[i].Attenuable = false
			}
			if offers[i].MaximumLifetime == 0 {
				offers[i].MaximumLifetime = c.Issuer.MaximumLifetime
			}
		}
	}
	if u, err := url.Parse(c.Issuer.URL); c.Evidence.Origin == "" && err == nil {
		c.Evidence.Origin = u.Host + u.Path
	}
	if l := &c.Operators.Login; l.ClientID != "" && l.Issuer == "" {
		l.Issuer = c.Approvals.Login.Issuer
	}
	if n := len(c.Evidence.Witnesses); n > 0 && c.Evidence.Quorum == 0 {
		c.Evidence.Quorum = n/2 + 1
	}
}

// checker looks at what settings say about each other.
type checker struct {
	*Config
	*decoder
	agents []string
}

// check reports what does not fit together.
func check(c *Config, d *decoder) {
	k := checker{Config: c, decoder: d}
	for _, a := range c.Agents {
		k.agents = append(k.agents, a.ID)
	}
	k.checkTimes()
	k.checkRetention()
	k.checkWitnesses()
	k.checkTLS()
	k.checkStore()
	k.checkProviders()
	k.checkTrustDomains()
	k.checkCallers()
	k.checkGuards()
	k.unique("issuer.feed.relays", "name", len(k.Issuer.Feed.Relays), func(i int) string { return k.Issuer.Feed.Relays[i].Name })
	k.checkDrafts()
	k.checkDev()
	k.checkAgents()
	k.checkDoors()
	k.checkAgentAuth()
	k.checkApprovals()
	k.checkOAuth()
	k.checkOperators()
	k.checkOffers()
	k.checkSkills()
	k.checkData()
	k.checkScopes()
	k.checkPlans()
	k.checkResources()
}

// checkDrafts wants the drafts of tokens that there are, each once.
func (k checker) checkDrafts() {
	for i, draft := range k.Issuer.TokenDrafts {
		at := fmt.Sprintf("issuer.token_drafts[%d]", i)
		switch {
		case draft != "02" && draft != "01":
			k.place(at, "is %q; want 02 or 01, in quotation marks", draft)
		case slices.Contains(k.Issuer.TokenDrafts[:i], draft):
			k.place(at, "%q occurs twice", draft)
		}
	}
}

// unique reports the elements of a list that have the name of an earlier one.
func (k checker) unique(path, key string, n int, name func(int) string) {
	seen := make(map[string]int)
	for i := range n {
		if first, again := seen[name(i)]; again {
			k.place(fmt.Sprintf("%s[%d].%s", path, i, key), "%q is already that of %s[%d]", name(i), path, first)
			continue
		}
		seen[name(i)] = i
	}
}

// known reports a name that is not among those that there are.
func (k checker) known(path, what, name string, names []string) bool {
	if slices.Contains(names, name) {
		return true
	}
	if k.unsure(what) {
		return false
	}
	k.put(path, "there is no %s %q%s", what, name, didYouMean(name, names))
	return false
}

// namesAt are the sections that have the names of each kind.
var namesAt = map[string]string{"agent": "agents", "caller": "identity.callers", "grant": "offers", "operation": "offers", "capability": "agents"}

// unsure reports whether a name of some kind could not be read, so that a name that seems to
// be unknown may be that one.
func (k checker) unsure(what string) bool {
	kind, _, _ := strings.Cut(what, " ")
	section, ok := namesAt[kind]
	if !ok {
		return false
	}
	for b := range k.broken {
		switch last := b[strings.LastIndexByte(b, '.')+1:]; {
		case within(section, b):
			return true
		case within(b, section) && (strings.HasSuffix(b, "]") || slices.Contains([]string{"id", "agent", "name", "operations", "capabilities"}, last)):
			return true
		}
	}
	return false
}

func (k checker) checkTimes() {
	if w := k.Defaults.ProofWindow; w > maximumProofWindow {
		k.place("defaults.proof_window", "%s is longer than %s", shortDuration(w), shortDuration(maximumProofWindow))
	}
	if l := k.Issuer.MaximumLifetime; l > maximumLifetime {
		k.place("issuer.maximum_lifetime", "%s is longer than %s", shortDuration(l), shortDuration(maximumLifetime))
	}
}

// longRetention is for how many years signatures on curves are taken to convince
// (EXT-29).
const longRetention = 10

// checkRetention wants records that stay convincing to be signed by an algorithm that is not
// expected to be broken in that time.
func (k checker) checkRetention() {
	if e := k.Evidence; e.Retention > longRetention && e.Algorithm != evidence.MLDSA87 {
		k.place("evidence.retention_years", "%d years with records that are signed by %s; want algorithm: %s beyond %d years", e.Retention, e.Algorithm, evidence.MLDSA87, longRetention)
	}
}

// checkWitnesses wants a quorum that two checkpoints which contradict each other
// cannot both have.
func (k checker) checkWitnesses() {
	e := k.Evidence
	k.unique("evidence.witnesses", "url", len(e.Witnesses), func(i int) string { return e.Witnesses[i].URL })
	if p := e.WitnessPeriod; p < minimumPeriod || p > maximumPeriod {
		k.place("evidence.witness_period", "%s is not from %s to %s", shortDuration(p), shortDuration(minimumPeriod), shortDuration(maximumPeriod))
	}
	switch n := len(e.Witnesses); {
	case n == 0 && (e.Quorum > 0 || e.StartUnwitnessed != ""):
		k.place("evidence.witnesses", "are missing, and quorum or start_unwitnessed is there")
	case n > 0 && (e.Quorum > n || 2*e.Quorum <= n):
		k.place("evidence.quorum", "%d of %d witnesses; want from %d to %d: of fewer, two checkpoints that contradict each other could both be cosigned", e.Quorum, n, n/2+1, n)
	}
}

// checkTLS wants certificate and key together, and TLS where callers are to
// prove themselves by certificate.
func (k checker) checkTLS() {
	t := k.Issuer.TLS
	if (t.Certificate == "") != (t.Key == "") {
		k.place("issuer.tls", "has only one of certificate and key; want both")
	}
	if t.ClientCA != "" && t.Certificate == "" {
		k.place("issuer.tls.client_ca", "needs certificate and key: client certificates come with TLS")
	}
}

func (k checker) checkGuards() {
	guards := k.Identity.Guards
	k.unique("identity.guards", "name", len(guards), func(i int) string { return guards[i].Name })
	callers := k.callers()
	for i, g := range guards {
		for j, name := range g.Agents {
			k.known(fmt.Sprintf("identity.guards[%d].agents[%d]", i, j), "caller", name, callers)
		}
	}
}

// callers are the names that a calling agent can have.
func (k checker) callers() []string {
	callers := slices.Clone(k.agents)
	for _, c := range k.Identity.Callers {
		callers = append(callers, c.Agent)
	}
	return callers
}

// checkLocal wants to know where an agent is, unless it is inside a program that
// asks; settings of the connection mean nothing if no call is forwarded.
func (k checker) checkLocal(at string, a Agent) {
	if a.Protocol != "local" {
		if a.Upstream == "" {
			k.place(at, "upstream is missing: URL of the agent behind; of an MCP server, its endpoint")
		}
		return
	}
	for name, set := range map[string]bool{
		"upstream": a.Upstream != "", "gateway_url": a.GatewayURL != "", "grpc": a.GRPC != AgentGRPC{}, "tls": a.TLS != UpstreamTLS{},
		"mcp": len(a.MCP.Methods)+len(a.MCP.ServerRequests) > 0, "modes": len(a.Modes) > 0, "canary": a.Canary != 100,
	} {
		if set {
			k.place(at+"."+name, "stands beside protocol: local, of which nothing is forwarded; leave it out")
		}
	}
}

func (k checker) checkDev() {
	users := k.Identity.Dev
	k.unique("identity.dev", "name", len(users), func(i int) string { return users[i].Name })
	for i, u := range users {
		at := fmt.Sprintf("identity.dev[%d].token", i)
		if len(u.Token.text) < minimumDevToken {
			k.place(at, "is too short; want at least %d bytes", minimumDevToken)
		}
		for j, other := range users[:i] {
			if other.Token == u.Token {
				k.place(at, "is already that of identity.dev[%d]", j)
			}
		}
	}
}

func (k checker) checkAgents() {
	k.unique("agents", "id", len(k.Agents), func(i int) string { return k.Agents[i].ID })
	for i, a := range k.Agents {
		if a.ID == trust.Issuer {
			k.place(fmt.Sprintf("agents[%d].id", i), "%q is the name of the server's own records; want another one", a.ID)
		}
	}
	for i, a := range k.Agents {
		at := fmt.Sprintf("agents[%d]", i)
		for j, name := range a.Required {
			k.qualified(fmt.Sprintf("%s.required[%d]", at, j), a.ID, name)
		}
		for method, name := range a.MCP.Methods {
			k.qualified(at+".mcp.methods."+method, a.ID, name)
		}
		k.checkLocal(at, a)
		k.checkUpstreamTLS(at, a)
		k.checkCredential(at, a)
		k.checkModes(at, a)
		k.checkEvidence(at, a)
		k.unique(at+".trust_roots", "issuer", len(a.TrustRoots), func(j int) string { return a.TrustRoots[j].Issuer })
	}
}

// checkModes wants rules that say whom they are about, and name what there is.
func (k checker) checkModes(at string, a Agent) {
	callers := k.callers()
	for i, r := range a.Modes {
		path := fmt.Sprintf("%s.modes[%d]", at, i)
		switch {
		case (r.Caller == "") == (r.Grant == ""):
			k.place(path, "want exactly one of caller and grant")
		case r.Caller != "":
			k.known(path+".caller", "caller", r.Caller, callers)
		default:
			k.known(path+".grant", fmt.Sprintf("grant of agent %q called", a.ID), r.Grant, grantIDs(k.Offers[a.ID]))
		}
	}
}

// maximumDegraded is how long calls may continue without a record at a time.
const maximumDegraded = 24 * time.Hour

// checkEvidence wants bodies that can be erased, and gaps that can be recorded.
func (k checker) checkEvidence(at string, a Agent) {
	if a.Bodies.Keep != "none" && k.Evidence.Arguments == "full" {
		k.place(at+".bodies.keep", "%q has bodies that can be erased, and evidence.arguments: full keeps the same inside records, where they cannot; want redacted or none there", a.Bodies.Keep)
	}
	if a.Context == "none" && a.Enforces == "context" {
		k.place(at+".context", "none sends no context, and enforces: context says that the agent enforces it; want signed, or enforces: none")
	}
	if a.Degraded.Calls != "none" && a.GatewayURL != "" {
		k.place(at+".degraded.calls", "%q is for agents behind the server itself: a remote gateway (gateway_url) cannot record a gap after its disk has failed", a.Degraded.Calls)
	}
	if f := a.Degraded.For; f > maximumDegraded {
		k.place(at+".degraded.for", "%s is longer than %s", shortDuration(f), shortDuration(maximumDegraded))
	}
}

// checkUpstreamTLS wants certificate and key together, and URLs that have TLS.
func (k checker) checkUpstreamTLS(at string, a Agent) {
	t := a.TLS
	if t == (UpstreamTLS{}) {
		return
	}
	if (t.Certificate == "") != (t.Key == "") {
		k.place(at+".tls", "has only one of certificate and key; want both")
	}
	for _, u := range [][2]string{{"upstream", a.Upstream}, {"grpc.upstream", a.GRPC.Upstream}} {
		if strings.HasPrefix(u[1], "http://") {
			k.place(at+"."+u[0], "%q has no TLS, which tls says how to speak; want https", u[1])
		}
	}
}

// qualified checks a name of the form grant/operation of an agent.
func (k checker) qualified(path, agent, name string) {
	grant, operation, ok := strings.Cut(name, "/")
	if !ok {
		k.place(path, "%q is not an operation; want grant/operation, such as documents:read/search", name)
		return
	}
	k.operation(path, agent, grant, operation)
}

// operation checks that an agent offers the grant and the grant the operation.
func (k checker) operation(path, agent, grant, operation string) {
	offers := k.Offers[agent]
	i := slices.IndexFunc(offers, func(o Offer) bool { return o.ID == grant })
	if i < 0 {
		k.known(path, fmt.Sprintf("grant of agent %q called", agent), grant, grantIDs(offers))
		return
	}
	k.known(path, fmt.Sprintf("operation of grant %q called", grant), operation, k.OperationsOf(agent, offers[i]))
}

func grantIDs(offers []Offer) []string {
	var ids []string
	for _, o := range offers {
		ids = append(ids, o.ID)
	}
	return ids
}

// OperationsOf returns the operations of an offer of the agent by their names,
// sorted: ["*"] is every operation that a skill maps to under that grant.
func (c *Config) OperationsOf(agent string, o Offer) []string {
	if !slices.Contains(o.Operations, "*") {
		return slices.Sorted(slices.Values(o.Operations))
	}
	names := make(map[string]bool)
	for _, s := range c.Skills[agent] {
		if s.Grant == o.ID {
			names[s.Operation] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func (k checker) checkOffers() {
	for _, agent := range slices.Sorted(maps.Keys(k.Offers)) {
		at, offers := "offers."+agent, k.Offers[agent]
		if !k.known(at, "agent", agent, k.agents) {
			continue
		}
		k.unique(at, "id", len(offers), func(i int) string { return offers[i].ID })
		for i, o := range offers {
			k.checkOffer(fmt.Sprintf("%s[%d]", at, i), agent, o)
		}
	}
}

func (k checker) checkOffer(at, agent string, o Offer) {
	for i, name := range o.Operations {
		path := fmt.Sprintf("%s.operations[%d]", at, i)
		switch {
		case name == "*" && len(o.Operations) > 1:
			k.place(path, `"*" stands beside other operations; want ["*"] alone or names`)
		case name == "*":
		case slices.Contains(o.Operations[:i], name):
			k.place(path, "%q stands twice", name)
		default:
			k.checkOperationName(path, agent, o.ID, name)
		}
	}
	if len(k.OperationsOf(agent, o)) == 0 {
		k.place(at+".operations", `name no operation; want at least one, or for ["*"] a skill that maps to grant %q`, o.ID)
	}
	for i, name := range o.Requires {
		path := fmt.Sprintf("%s.requires[%d]", at, i)
		if name == o.ID {
			k.place(path, "%q requires itself", name)
			continue
		}
		k.known(path, fmt.Sprintf("grant of agent %q called", agent), name, grantIDs(k.Offers[agent]))
	}
	if o.MaximumLifetime > maximumLifetime {
		k.place(at+".maximum_lifetime", "%s is longer than %s", shortDuration(o.MaximumLifetime), shortDuration(maximumLifetime))
	}
	if o.Legacy && o.Attenuable {
		k.place(at+".attenuable", "a legacy grant is never attenuable (SEP-3); want false or nothing")
	}
}

func (k checker) checkOperationName(path, agent, grant, name string) {
	if err := checkName(name); err != nil {
		k.place(path, "%v", err)
		return
	}
	if n := len(agent) + len(grant) + len(name) + 2; n > powerbox.MaxOperationBytes {
		k.place(path, "agent, grant and operation have %d bytes together; want at most %d", n, powerbox.MaxOperationBytes)
	}
}

func (k checker) checkSkills() {
	for _, agent := range slices.Sorted(maps.Keys(k.Skills)) {
		at, skills := "skills."+agent, k.Skills[agent]
		if !k.known(at, "agent", agent, k.agents) {
			continue
		}
		k.unique(at, "skill", len(skills), func(i int) string { return skills[i].Skill })
		for i, s := range skills {
			path := fmt.Sprintf("%s[%d]", at, i)
			k.agrees(path, at, skills[:i], s)
			switch ids := grantIDs(k.Offers[agent]); {
			case s.Grant == GrantOfAgentAuth:
				k.granted(path+".operation", agent, s.Operation)
			case slices.Contains(ids, s.Grant):
				k.operation(path+".operation", agent, s.Grant, s.Operation)
			default:
				k.known(path+".grant", fmt.Sprintf("grant of agent %q called", agent), s.Grant, ids)
			}
			k.checkOperationName(path+".operation", agent, s.Grant, s.Operation)
			if _, ok := s.Arguments[s.Handle]; s.Handle != "" && s.Arguments != nil && !ok {
				k.place(path+".handle", "%q is not among the arguments of the skill%s", s.Handle, didYouMean(s.Handle, slices.Collect(maps.Keys(s.Arguments))))
			}
			if n := len(s.Arguments); n > powerbox.MaxArguments {
				k.place(path+".arguments", "%d arguments; want at most %d", n, powerbox.MaxArguments)
			}
		}
	}
}

// agrees reports a skill that takes other arguments than an earlier one of the
// same operation. A grant gives the operation: a capability that one skill
// limits to its resources must not go further by way of another.
func (k checker) agrees(path, at string, earlier []Skill, s Skill) {
	i := slices.IndexFunc(earlier, func(o Skill) bool { return o.Grant == s.Grant && o.Operation == s.Operation })
	if i < 0 {
		return
	}
	first, of := earlier[i], fmt.Sprintf("%s[%d], which is operation %s/%s too", at, i, s.Grant, s.Operation)
	if first.Handle != s.Handle {
		k.place(path+".handle", "%q is another than %q of %s; want the same, or an operation of its own", s.Handle, first.Handle, of)
	}
	same := func(a, b Constraint) bool { return a.JSON().Equal(b.JSON()) }
	if (first.Arguments == nil) != (s.Arguments == nil) || !maps.EqualFunc(first.Arguments, s.Arguments, same) {
		k.place(path+".arguments", "differ from those of %s; want the same, or an operation of its own", of)
	}
}

func (k checker) checkScopes() {
	callers := k.callers()
	for _, caller := range slices.Sorted(maps.Keys(k.Scopes)) {
		at := "scopes." + caller
		k.known(at, "caller", caller, callers)
		for _, agent := range slices.Sorted(maps.Keys(k.Scopes[caller])) {
			if !k.known(at+"."+agent, "agent", agent, k.agents) {
				continue
			}
			for i, name := range k.Scopes[caller][agent] {
				k.qualified(fmt.Sprintf("%s.%s[%d]", at, agent, i), agent, name)
			}
		}
	}
}
