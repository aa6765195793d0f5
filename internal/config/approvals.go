package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/mail"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Approvals says who answers questions to people, and how they log in to the
// pages on which they do.
type Approvals struct {
	Rules            []ApprovalRule `key:"rules" doc:"Who answers requests that policies leave to people (@approval), and calls of skills with approval. For each operation on each resource the first matching rule counts. All people whom a rule names for a part must approve. Without a rule it is the user for whom the agent acts."`
	Timeout          time.Duration  `key:"timeout" default:"10m" doc:"Time to answer. No answer is a denial."`
	Fresh            time.Duration  `key:"fresh" default:"5m" doc:"How long after a login a person can approve. Denying and revoking need no fresh login."`
	Session          time.Duration  `key:"session" default:"8h" doc:"Lifetime of a login."`
	LoginsPerAddress int            `key:"logins_per_address" default:"120" min:"0" max:"1000000" doc:"Requests a minute from one address that begin a login, and as many that finish one. Further ones get 429. 0 is no limit."`
	Logins           int            `key:"logins" default:"1200" min:"0" max:"1000000" doc:"The same limit for all addresses together. 0 is no limit."`
	Operators        []string       `key:"operators" doc:"People with the role operator at all agents: principals such as user:bob, or group:NAME. The same as an entry of operators.roles."`
	Audience         string         `key:"audience" doc:"Audience (aud) of a person's session in a shell. Agents refuse such a session. Default: issuer.url with /approve."`
	Clients          []string       `key:"clients" doc:"Client ids by which only people get tokens, such as that of powerbox login; with several providers ISSUER#CLIENT. A session of such a client is a person's, whatever its audience, and agents refuse it. login.client_id is always one."`
	Webhooks         []Webhook      `key:"webhooks" doc:"Webhooks for questions that wait for people, signed by the Standard Webhooks specification."`
	Mail             Mail           `key:"mail" doc:"Mail server that sends questions to people. Absent: none."`
	Login            Login          `key:"login" doc:"OpenID provider at which people log in. Absent, and without serve --dev: the first start prints a URL at which an administrator registers a passkey."`
}

// ApprovalRule says who answers for some operations and resources.
type ApprovalRule struct {
	Agent         string        `key:"agent" doc:"Agent of the rule. Absent: every agent."`
	Operation     string        `key:"operation" doc:"Operation of the rule, as grant/operation. Absent: every operation."`
	Resource      string        `key:"resource" doc:"Id of the resource of the rule. Absent: every resource."`
	Approvers     []string      `key:"approvers" required:"true" doc:"Who may answer: self for the user for whom the agent acts, a principal such as user:bob, group:NAME, or role:approver for everyone with that role at the agent (operators.roles). Only self lets people answer requests in their own name."`
	People        int           `key:"people" default:"1" min:"1" max:"10" doc:"How many of them must approve. One denial is enough to deny."`
	Timeout       time.Duration `key:"timeout" doc:"Time to answer. Default: approvals.timeout."`
	Delegates     []string      `key:"delegates" doc:"Principals that may also answer, after delegate_after."`
	DelegateAfter time.Duration `key:"delegate_after" doc:"Time after which delegates may answer. Absent: at once."`
}

// Webhook is a URL that is told of what waits for people.
type Webhook struct {
	Name     string   `key:"name" required:"true" format:"id" doc:"Name of the webhook, for the log."`
	URL      string   `key:"url" format:"url" doc:"URL that gets the messages, by POST."`
	URLFile  Path     `key:"url_file" doc:"File with that URL, in place of url: the URL of Slack and Teams is a secret. Exactly one of the two."`
	Secret   Secret   `key:"secret" doc:"Required, except with the templates slack and teams. Secret of the signatures, at least 16 bytes: whsec_ and base64, or the bytes themselves."`
	Template string   `key:"template" default:"json" enum:"json,chat,mail,slack,teams" doc:"Form of the message. With json it has everything except arguments. Use slack for an incoming webhook of Slack, and teams for a Teams workflow that posts cards. With chat it is {text}. With mail it is {to, subject, text}, for a service that sends mail."`
	Events   []string `key:"events" doc:"Events to send: asked, overdue, answered, alert. Absent: all."`
	Private  bool     `key:"private" doc:"Whether to admit addresses of this machine and of private networks, also without TLS."`
}

// Mail is an SMTP server for questions that wait for people.
type Mail struct {
	Server       string              `key:"server" format:"address" doc:"Mail server, host:port, for example mail.example.org:587. It must offer STARTTLS, unless it is on a loopback address."`
	From         string              `key:"from" doc:"Sender's address. Required with server."`
	To           []string            `key:"to" doc:"Addresses that get every message."`
	Addresses    map[string][]string `key:"addresses" doc:"Addresses of single people and groups, which get what they are asked: user:bob or group:NAME, as in approvals.rules."`
	Username     string              `key:"username" doc:"Name at the server. Absent: none."`
	PasswordFile Path                `key:"password_file" doc:"File with the password, read again for every message. Required with username."`
	Events       []string            `key:"events" doc:"Events to send: asked, overdue, answered, alert. Absent: all."`
}

// MailName is the name of the mail server among the webhooks.
const MailName = "mail-server"

// checkMail wants a server and addresses that can be told.
func (k checker) checkMail() {
	m := k.Approvals.Mail
	if m.Server == "" {
		if m.From != "" || len(m.To)+len(m.Addresses) > 0 || m.Username != "" {
			k.place("approvals.mail.server", "is missing; want host:port of the mail server")
		}
		return
	}
	address := func(at, text string) {
		if a, err := mail.ParseAddress(text); err != nil || a.Address != text || strings.ContainsFunc(text, unicode.IsControl) {
			k.place(at, "%q is not an address; want one such as name@example.org", text)
		}
	}
	address("approvals.mail.from", m.From)
	for n, to := range m.To {
		address(fmt.Sprintf("approvals.mail.to[%d]", n), to)
	}
	for _, who := range slices.Sorted(maps.Keys(m.Addresses)) {
		for n, to := range m.Addresses[who] {
			address(fmt.Sprintf("approvals.mail.addresses.%s[%d]", who, n), to)
		}
	}
	if len(m.To)+len(m.Addresses) == 0 {
		k.place("approvals.mail", "has no addresses; want to, or addresses")
	}
	if (m.Username == "") != (m.PasswordFile == "") {
		k.place("approvals.mail", "has only one of username and password_file; want both")
	}
	for i, e := range m.Events {
		k.known(fmt.Sprintf("approvals.mail.events[%d]", i), "event", e, []string{"asked", "overdue", "answered", "alert"})
	}
}

// Key returns the secret's bytes.
func (w Webhook) Key() ([]byte, error) {
	encoded, ok := strings.CutPrefix(w.Secret.Reveal(), "whsec_")
	if !ok {
		return []byte(w.Secret.Reveal()), nil
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, errors.New("what follows whsec_ is not base64")
	}
	return key, nil
}

// checkWebhooks wants webhooks that can be told, and told apart.
func (k checker) checkWebhooks() {
	hooks := k.Approvals.Webhooks
	k.unique("approvals.webhooks", "name", len(hooks), func(i int) string { return hooks[i].Name })
	for n, w := range hooks {
		at := fmt.Sprintf("approvals.webhooks[%d]", n)
		if key, err := w.Key(); err != nil {
			k.place(at+".secret", "%v", err)
		} else if len(key) < 16 && (len(key) > 0 || w.Template != "slack" && w.Template != "teams") {
			k.place(at+".secret", "has %d bytes; want at least 16", len(key))
		}
		for i, e := range w.Events {
			k.known(fmt.Sprintf("%s.events[%d]", at, i), "event", e, []string{"asked", "overdue", "answered", "alert"})
		}
		if (w.URL == "") == (w.URLFile == "") {
			k.place(at, "needs exactly one of url and url_file")
		}
		if w.Name == MailName {
			k.place(at+".name", "%q is that of approvals.mail; want another", w.Name)
		}
		if w.URL != "" && !w.Private && !strings.HasPrefix(w.URL, "https://") {
			k.place(at+".url", "%q is not https; want that, or private: true for an address of one's own", w.URL)
		}
	}
}

// Self is the approver that stands for the user behind, and GroupPrefix begins
// those that are groups.
const (
	Self        = "self"
	GroupPrefix = "group:"
)

// checkRules wants rules that someone can follow.
func (k checker) checkRules() {
	if k.Approvals.Timeout < time.Second {
		k.place("approvals.timeout", "%s is less than a second", k.Approvals.Timeout)
	}
	k.checkWho("approvals.operators", k.Approvals.Operators)
	for n, r := range k.Approvals.Rules {
		at := fmt.Sprintf("approvals.rules[%d]", n)
		self := slices.Contains(r.Approvers, Self)
		switch {
		case len(r.Approvers) == 0:
			k.place(at+".approvers", "are missing; want self, principals or groups")
		case self && len(r.Approvers) > 1:
			k.place(at+".approvers", "self stands with others; want self alone, and the others as delegates")
		case self && r.People > 1:
			k.place(at+".people", "%d people are wanted of one, self", r.People)
		}
		if slices.Contains(r.Approvers, RoleApprover) && !slices.ContainsFunc(k.Operators.Roles, func(g RoleGiven) bool { return g.Role == "approver" }) {
			k.place(at+".approvers", "name role:approver, and operators.roles gives that role to no person")
		}
		if r.Agent != "" && !slices.ContainsFunc(k.Agents, func(a Agent) bool { return a.ID == r.Agent }) {
			k.place(at+".agent", "there is no agent %q", r.Agent)
		}
		if r.Operation != "" && !strings.Contains(r.Operation, "/") {
			k.place(at+".operation", "%q has no grant; want grant/operation", r.Operation)
		}
		if r.Timeout < 0 || r.Timeout > 0 && r.Timeout < time.Second {
			k.place(at+".timeout", "%s is less than a second", r.Timeout)
		}
		if r.DelegateAfter < 0 || r.DelegateAfter > 0 && len(r.Delegates) == 0 {
			k.place(at+".delegate_after", "is set without delegates, or negative")
		}
	}
}

// Login is the client that the server is at an OpenID provider.
type Login struct {
	Issuer       string   `key:"issuer" format:"url" doc:"One of identity.providers, which defines the names of its people."`
	ClientID     string   `key:"client_id" doc:"Client id of this server there. Its redirect URI is issuer.url with /login/callback."`
	ClientSecret Secret   `key:"client_secret" doc:"Client secret, if it has one. PKCE is always used."`
	Scopes       []string `key:"scopes" doc:"Scopes to request besides openid."`
}

// checkApprovals wants times that are possible, and a provider that is believed.
func (k checker) checkApprovals() {
	k.checkRules()
	k.checkWebhooks()
	k.checkMail()
	a := k.Approvals
	if a.Fresh < time.Second {
		k.place("approvals.fresh", "%s is less than a second", a.Fresh)
	}
	if a.Session < a.Fresh {
		k.place("approvals.session", "%s is less than approvals.fresh, %s", a.Session, a.Fresh)
	}
	k.checkPeople()
	l := a.Login
	switch {
	case l.Issuer == "" && (l.ClientID != "" || l.ClientSecret.Reveal() != ""):
		k.place("approvals.login.issuer", "is missing; want one of identity.providers")
	case l.Issuer == "":
	case l.ClientID == "":
		k.place("approvals.login.client_id", "is missing; the provider gave this server one when it was registered")
	case !slices.ContainsFunc(k.Identity.Providers, func(p Provider) bool { return p.Issuer == l.Issuer }):
		k.place("approvals.login.issuer", "%q is none of identity.providers; put it there, which says what its people are called", l.Issuer)
	}
}

// checkPeople wants what tells people from agents to be of no agent.
func (k checker) checkPeople() {
	for n, client := range k.Approvals.Clients {
		if slices.ContainsFunc(k.Identity.Callers, func(r CallerRule) bool { return r.Client != "" && r.Client == client }) {
			k.place(fmt.Sprintf("approvals.clients[%d]", n), "%q is that of an agent in identity.callers; want a client by which only people log in", client)
		}
	}
	for _, p := range k.Identity.Providers {
		if k.Approvals.Audience != "" && slices.Contains(p.Audience, k.Approvals.Audience) {
			k.place("approvals.audience", "%q is in the audience of %s, which agents take; want one that only people's sessions have", k.Approvals.Audience, p.Issuer)
		}
	}
}
