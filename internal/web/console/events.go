package console

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/web/lang"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// look is how often someone who follows the list is looked for news.
const look = time.Second

// maxFollowed bounds the pages that one person follows live at once, so that no person
// takes the places of all.
const maxFollowed = 8

func (k *Console) follow(principal string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.followed[principal] >= maxFollowed {
		return false
	}
	k.followed[principal]++
	return true
}

func (k *Console) unfollow(principal string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.followed[principal]--; k.followed[principal] <= 0 {
		delete(k.followed, principal)
	}
}

// events tells a page when the requests that wait for its person have changed. It does
// not name them: the page loads them.
func (k *Console) events(v *visit) error {
	who, err := k.person(v)
	if err != nil {
		return agentauth.Errorf(agentauth.CodeUnauthenticated, "log in first")
	}
	if !k.follow(who.Principal) {
		return agentauth.Errorf(agentauth.CodeRateLimited, "%s", v.T("you follow %s pages already; load the page again when you want news", lang.Number(maxFollowed)))
	}
	defer k.unfollow(who.Principal)
	select {
	case k.streams <- struct{}{}:
		defer func() { <-k.streams }()
	default:
		return agentauth.Errorf(agentauth.CodeRateLimited, "too many pages are followed; load the page again when you want news")
	}
	v.wrote = true
	v.w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(v.w)
	tick := time.NewTicker(look)
	defer tick.Stop()
	cookie := k.cookie(v.r, sessionCookie)
	for last, first := "", true; ; first = false {
		if k.sessions.of(cookie) == nil {
			return nil
		}
		if who, err = k.person(v); err != nil {
			return nil //nolint:nilerr // the page asks again, and is told
		}
		ids, err := k.waitingFor(v, who)
		if err != nil {
			return err
		}
		if now := strings.Join(ids, " "); now != last || first {
			last = now
			event := "changed"
			if first {
				event = "now"
			}
			fmt.Fprintf(v.w, "event: %s\ndata: %d\n\n", event, len(ids))
		} else {
			fmt.Fprint(v.w, ":\n\n") // notices a closed connection
		}
		if out.Flush() != nil {
			return nil
		}
		select {
		case <-v.r.Context().Done():
			return nil
		case <-k.config.Done:
			return nil
		case <-tick.C:
		}
	}
}

// waitingFor lists the ids of the questions that wait for a person.
func (k *Console) waitingFor(v *visit, who provider.Person) ([]string, error) {
	qs, err := k.config.Questions.Questions(v.r.Context(), who)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(qs))
	for i, q := range qs {
		ids[i] = q.Approval.ID
	}
	if k.config.Desk == nil {
		return ids, nil
	}
	own, review, err := k.config.Desk.Questions(v.r.Context(), who)
	for _, q := range slices.Concat(own, review) {
		ids = append(ids, q.ID)
	}
	return ids, err
}
