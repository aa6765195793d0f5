package api

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// The paths of AuthZEN (section 9) and of its access-request profile (draft 1), by which a
// program asks for an approval in words that are not ours. The question is the one that the
// denial itself has asked.
const (
	PathAuthZEN  = "/.well-known/authzen-configuration"
	pathRequests = "/access/v1/requests"
)

// errorRequest begins the types of errors of the profile.
const errorRequest = "urn:openid:authzen:access-request:error:"

// requestable are the members by which a denial says that access can be asked for.
type requestable struct {
	EvaluationID  string         `json:"evaluation_id,omitempty"`
	Reason        string         `json:"reason,omitempty"`
	AccessRequest *accessRequest `json:"access_request,omitempty"`
}

type accessRequest struct {
	Endpoint string    `json:"endpoint"`
	Expires  time.Time `json:"expires_at"`
	Form     string    `json:"form_url"` // the page on which a person answers
}

func (d *Decisions) requestable(said GuardAnswer) requestable {
	if said.Decision == "" {
		return requestable{}
	}
	return requestable{said.Decision, "approval_required", &accessRequest{d.at(pathRequests), said.Expires.UTC(), said.URL}}
}

func (d *Decisions) at(path string) string { return strings.TrimSuffix(d.URL, "/") + path }

// taskAnswer is a task of the profile, and its result.
type taskAnswer struct {
	Task   requestTask    `json:"task"`
	Result *requestResult `json:"result,omitempty"`
}

type requestTask struct {
	ID       string            `json:"id"`
	Status   string            `json:"status"`
	Endpoint string            `json:"status_endpoint"`
	Expires  time.Time         `json:"expires_at"`
	Links    map[string]string `json:"links,omitempty"`
}

// requestResult says that the same question is answered with yes now, once.
type requestResult struct {
	Mode     string           `json:"mode"`
	Approval *requestApproval `json:"approval,omitempty"`
}

type requestApproval struct {
	ID string `json:"id"`
}

// profileError is an error of the profile.
type profileError struct {
	status int
	kind   string
	detail string
}

// requested answers the submission of an access request. The denial has asked people
// already, so nothing is asked twice.
func (d *Decisions) requested(w http.ResponseWriter, r *http.Request) {
	answer, err := d.serve(w, r, d.Queue, func(ctx context.Context, g *Guard, v powerbox.Value) (any, error) {
		e, err := evaluationOf(v, powerbox.Object())
		if err != nil {
			return nil, status{http.StatusBadRequest, err.Error()}
		}
		call, _, err := d.call(ctx, g, e)
		if err != nil {
			return nil, err
		}
		denial, _ := v.Get("denial")
		unbound := profileError{http.StatusBadRequest, "invalid_denial_binding", "denial.evaluation_id names no denial of this subject, action, resource and context that waits for a person"}
		if !d.asks(call) {
			return unbound, nil
		}
		a, err := attemptOf(g, e, call)
		if err != nil {
			return nil, status{http.StatusBadRequest, err.Error()}
		}
		said, known, err := d.Approvals.Find(ctx, a)
		switch {
		case err != nil:
			return nil, err
		case !known || said.Decision == "" || said.Decision != textOf(denial, "evaluation_id"):
			return unbound, nil
		case textOf(denial, "expires_at") != said.Expires.UTC().Format(time.RFC3339Nano):
			return profileError{http.StatusBadRequest, "invalid_denial_binding", "denial.expires_at is not that of the denial"}, nil
		case !d.Now().Before(said.Expires):
			return profileError{http.StatusBadRequest, "expired_denial", "the denial is too old; ask for the decision again"}, nil
		}
		return d.task(a, said), nil
	})
	if t, ok := answer.(taskAnswer); ok && err == nil {
		w.Header().Set("Location", t.Task.Endpoint)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusAccepted)
		_ = json.NewEncoder(w).Encode(t) // the client has gone: there is no caller to tell
		return
	}
	d.say(w, r, answer, err)
}

// say answers with a result or with an error of the profile.
func (d *Decisions) say(w http.ResponseWriter, r *http.Request, answer any, err error) {
	p, wrong := answer.(profileError)
	if !wrong || err != nil {
		reply(w, r, d.Log, answer, err)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.status)
	_ = json.NewEncoder(w).Encode(map[string]any{"type": errorRequest + p.kind, "status": p.status, "detail": p.detail}) // as above
}

// requestStatus answers for a task. Only the guard whose attempt it is hears of it.
func (d *Decisions) requestStatus(w http.ResponseWriter, r *http.Request) {
	g := d.guard(r)
	if g == nil {
		w.Header().Set("WWW-Authenticate", "Bearer")
		reply(w, r, d.Log, nil, status{http.StatusUnauthorized, "want the token of one of identity.guards"})
		return
	}
	a, formed := attemptNamed(r.PathValue("id"))
	gone := profileError{http.StatusNotFound, "unknown_task", "there is no such task of this program"}
	if !formed || d.Approvals == nil {
		d.say(w, r, gone, nil)
		return
	}
	said, known, err := d.Approvals.Find(r.Context(), a)
	if err == nil && (!known || said.Guard != GuardHolder(g.Name)) {
		d.say(w, r, gone, nil)
		return
	}
	if err == nil && said.State == issuer.StatePending {
		w.Header().Set("Retry-After", strconv.Itoa(max(int(said.Interval/time.Second), 1)))
	}
	d.say(w, r, d.task(a, said), err)
}

// task words a question as a task. Its id names the attempt, by the digest of all of it.
func (d *Decisions) task(a GuardAttempt, said GuardAnswer) taskAnswer {
	id := "arq_" + base64.RawURLEncoding.EncodeToString([]byte(a.Agent)) + "." + a.Digest
	t := taskAnswer{Task: requestTask{ID: id, Endpoint: d.at(pathRequests + "/" + id), Expires: said.Expires.UTC(), Status: "pending", Links: map[string]string{"ticket": said.URL}}}
	switch said.State {
	case issuer.StatePending:
	case issuer.StateApproved:
		t.Task.Status, t.Result = "approved", &requestResult{Mode: "reevaluate", Approval: &requestApproval{said.Question}}
	case issuer.StateDenied:
		t.Task.Status = "denied"
	default:
		t.Task.Status = "expired"
	}
	return t
}

// attemptNamed reads the id of a task.
func attemptNamed(id string) (GuardAttempt, bool) {
	agent, digest, cut := strings.Cut(strings.TrimPrefix(id, "arq_"), ".")
	name, err := base64.RawURLEncoding.DecodeString(agent)
	return GuardAttempt{Agent: string(name), Digest: digest}, cut && err == nil && strings.HasPrefix(id, "arq_")
}

// discovery names the endpoints (section 9.2.2).
func (d *Decisions) discovery(w http.ResponseWriter, r *http.Request) {
	all := map[string]string{
		"policy_decision_point": strings.TrimSuffix(d.URL, "/"), "access_evaluation_endpoint": d.at("/access/v1/evaluation"), "access_evaluations_endpoint": d.at("/access/v1/evaluations"),
		"search_subject_endpoint": d.at("/access/v1/search/subject"), "search_resource_endpoint": d.at("/access/v1/search/resource"), "search_action_endpoint": d.at("/access/v1/search/action"),
	}
	if d.Approvals != nil {
		all["access_request_endpoint"] = d.at(pathRequests)
	}
	reply(w, r, d.Log, all, nil)
}
