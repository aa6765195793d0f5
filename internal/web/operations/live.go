package operations

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/web/api"
)

const (
	livePath = Path + "/live"
	// shownLive is how many records the page has when it opens.
	shownLive = 50
)

// livePage has the newest decisions. Its script adds those that come.
type livePage struct {
	Rows    []row
	Denied  bool   // denials only
	Reason  string // a code, "" for all
	Stream  string // where the next ones come from
	Reasons []api.ReasonActivity
	Reload  string
}

func (p *Pages) live(v *Visit) (Answer, error) {
	page := livePage{Denied: v.URL.Query().Get("decision") == string(evidence.Deny), Reason: v.URL.Query().Get("reason")}
	kept := url.Values{}
	if page.Denied {
		kept.Set("decision", string(evidence.Deny))
	}
	if page.Reason != "" {
		kept.Set("reason", page.Reason)
	}
	page.Reload = livePath
	if len(kept) > 0 {
		page.Reload += "?" + kept.Encode()
	}
	// The place from which the stream follows is taken first: what comes in between is
	// shown once, since the script knows the rows.
	newest, _, err := v.API.Records(v.Context(), url.Values{"limit": {"1"}})
	if err != nil {
		return Answer{}, err
	}
	asked := url.Values{"limit": {strconv.Itoa(3 * shownLive)}} // outcomes are left out
	for name := range kept {
		asked.Set(name, kept.Get(name))
	}
	sealed, _, err := v.API.Records(v.Context(), asked)
	if err != nil {
		return Answer{}, err
	}
	for _, s := range sealed {
		if r := s.Record(); r.Details.OutcomeOf == "" && len(page.Rows) < shownLive {
			page.Rows = append(page.Rows, rowOf(v.Language, v.Rights, r))
		}
	}
	var activity api.ActivityReport
	if err := v.API.Get(v.Context(), "/v1/summary", &activity); err != nil {
		return Answer{}, err
	}
	page.Reasons = activity.Reasons
	for _, s := range newest {
		kept.Set("after", s.Record().ID)
	}
	page.Stream = livePath + "/events?" + kept.Encode()
	return Answer{Page: "live", Title: v.T("Live"), Body: page, Script: "live.js"}, nil
}

// errEnded ends a stream whose person is not logged in any more.
var errEnded = errors.New("operations: the login has ended")

// liveEvents passes the stream of records on, for as long as the person may have it.
func (p *Pages) liveEvents(v *Visit) (Answer, error) {
	return Answer{Write: func(w http.ResponseWriter) error {
		return v.API.Pass(lasting{w, v.Still}, v.Request, "/v1/records/stream?"+v.URL.RawQuery)
	}}, nil
}

// lasting is an answer that lasts. It asks before each part whether it still may.
type lasting struct {
	http.ResponseWriter

	still func() bool
}

// Write implements [http.ResponseWriter].
func (l lasting) Write(p []byte) (int, error) {
	if !l.still() {
		return 0, errEnded
	}
	return l.ResponseWriter.Write(p)
}

// Unwrap is for [http.NewResponseController].
func (l lasting) Unwrap() http.ResponseWriter { return l.ResponseWriter }
