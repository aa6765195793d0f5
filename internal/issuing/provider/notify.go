package provider

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"strings"

	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// Notification names an approval so that nobody can name it who was not told: whoever
// follows it shows nothing else (section 10.10.2).
func (p *Provider) Notification(a Approval) string {
	return a.ID + "." + base64.RawURLEncoding.EncodeToString(p.codeHash("notification " + a.ID)[:16])
}

// Notified is how an approval that was named by [Provider.Notification] stands: over
// is false while a person can answer it.
func (p *Provider) Notified(ctx context.Context, name string) (s Standing, a Approval, over bool, err error) {
	unknown := agentauth.Errorf(agentauth.CodeNotFound, "there is no such request")
	id, _, _ := strings.Cut(name, ".")
	if subtle.ConstantTimeCompare([]byte(p.Notification(Approval{ID: id})), []byte(name)) != 1 {
		return s, a, false, unknown
	}
	err = p.config.Store.ViewProvider(ctx, func(r Reader) error {
		var err error
		if a, err = r.Approval(id); err != nil {
			return err
		}
		agent, err := r.HostAgent(a.Agent)
		if err != nil {
			return err
		}
		grants, err := r.Grants(agent.ID)
		s = p.standing(Host{}, agent, grants, nil)
		return err
	})
	if notFound(err) {
		err = unknown
	}
	return s, a, !a.Open(p.config.Now()), err
}
