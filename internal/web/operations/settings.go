package operations

import (
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/sorting"
	"github.com/powerbox-project/powerbox/internal/version"
	"github.com/powerbox-project/powerbox/internal/web/api"
	"github.com/powerbox-project/powerbox/internal/web/lang"
)

// settingsPage is the state of what an operator sets up outside of the pages.
type settingsPage struct {
	Version  string
	Gateways []settingsGateway
	Trust    evidence.Trust
	Head     api.LogHead
	Issuing  []issuingKey
	// Administers says that the visitor looks after people.
	Administers bool
	// Sessions are those of people, for those who administer.
	Sessions api.OpenSessions
}

// issuingKey is the key that an agent issues with, and its age in words.
type issuingKey struct {
	Agent string
	*api.IssuingKey
	Age string
}

// settingsGateway is a remote gateway with its state in words.
type settingsGateway struct {
	api.GatewayStatus
	Says string // what needs a look, "" for nothing
}

// logins are the ways by which people log in to a browser.
var logins = map[people.Login]string{
	people.ByProvider: lang.Mark("identity provider"), people.ByPasskey: lang.Mark("passkey"), people.ByInvite: lang.Mark("first administrator's URL"), people.ByName: lang.Mark("built-in user"),
}

// loginSays words a way to log in.
func loginSays(l *lang.Language, by people.Login) string {
	if says, ok := logins[by]; ok {
		return l.T(says)
	}
	return string(by)
}

func (p *Pages) settings(v *Visit) (Answer, error) {
	page := settingsPage{Version: version.Read().String(), Administers: v.Rights.May(people.Administer)}
	var gateways []api.GatewayStatus
	var activity api.ActivityReport
	var agents []api.AgentStatus
	for path, into := range map[string]any{"/v1/agents": &agents, "/v1/gateways": &gateways, "/v1/evidence/trust": &page.Trust, "/v1/summary": &activity} {
		if err := v.API.Get(v.Context(), path, into); err != nil {
			return Answer{}, err
		}
	}
	if page.Administers {
		if err := v.API.Get(v.Context(), "/v1/sessions", &page.Sessions); err != nil {
			return Answer{}, err
		}
	}
	page.Head = activity.Head
	for _, a := range agents {
		if a.Key != nil {
			page.Issuing = append(page.Issuing, issuingKey{a.ID, a.Key, ago(v.Language, p.config.Now().Sub(a.Key.Made))})
		}
	}
	sorting.Stable(page.Issuing, func(a, b issuingKey) int { return a.Made.Compare(b.Made) })
	for _, g := range gateways {
		page.Gateways = append(page.Gateways, settingsGateway{g, attention(v.Language, g, p.config.Now())})
	}
	return Answer{Page: "settings", Title: v.T("Gateways and keys"), Body: page}, nil
}
