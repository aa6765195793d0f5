package provider

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"strings"

	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// Notification names an approval by a name that only those who were told can know:
// anyone who follows it shows nothing else (section 10.10.2).
func (p *Provider) Notification(a Approval) string {
	return a.ID + "." + base64.RawURLEncoding.EncodeToString(p.codeHash("notification " + a.ID)[:16])
}

// Notified is how an approval that was named by [Provider.Notification] stands, and whether
// a person can answer it.
func (p *Provider) Notified(ctx context.Context, name string) (s AgentState, q Question, open bool, err error) {
	unknown := agentauth.Errorf(agentauth.CodeNotFound, "there is no such request")
	id, _, _ := strings.Cut(name, ".")
	if subtle.ConstantTimeCompare([]byte(p.Notification(Approval{ID: id})), []byte(name)) != 1 {
		return s, q, false, unknown
	}
	err = p.config.Store.ViewProvider(ctx, func(r Reader) error {
		a, err := r.Approval(id)
		if err != nil {
			return err
		}
		if q, err = p.question(r, a); err != nil {
			return err
		}
		grants, err := p.grants(r, a.Agent)
		s = p.standing(Host{}, q.Agent, grants, nil)
		return err
	})
	if notFound(err) {
		err = unknown
	}
	return s, q, err == nil && p.Open(q), err
}
