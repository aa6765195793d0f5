package agentapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/shed"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// viewer finds out who looks, for list and describe (AAP-C2, AAP-C3, AAP-C11).
func (a *API) viewer(r *http.Request) (provider.Viewer, http.Header, error) {
	shown, err := a.presented(r)
	if err != nil {
		return provider.Viewer{}, nil, err
	}
	scope := "public"
	if shown.Token != "" {
		scope = "private"
	}
	v, err := a.config.Provider.Viewer(a.bounded(r), shown)
	if err == nil && a.config.Private && v.Host == nil && v.Agent == nil { // an unapproved host, which anyone can make, is still a stranger
		err = agentauth.Errorf(agentauth.CodeUnauthenticated, "capabilities are shown to hosts and agents alone, once they are approved")
	}
	return v, http.Header{"Cache-Control": {scope + ", max-age=300"}, "Vary": {"Authorization"}}, err
}

// list answers section 5.2.
func (a *API) list(r *http.Request) (answer, error) {
	v, header, err := a.viewer(r)
	if err != nil {
		return answer{}, err
	}
	q := r.URL.Query()
	limit := 0
	if s := q.Get("limit"); s != "" {
		if limit, err = strconv.Atoi(s); err != nil || limit < 1 {
			return answer{}, agentauth.Errorf(agentauth.CodeInvalidRequest, "limit; want a number, 1 or more")
		}
	}
	page, err := a.config.Provider.List(v, q.Get("query"), q.Get("cursor"), limit)
	if err != nil {
		return answer{}, err
	}
	out := make([]map[string]any, 0, len(page.Capabilities))
	for _, c := range page.Capabilities {
		one := map[string]any{"name": c.Name, "description": c.Description}
		if checks := c.Checks(); checks != "" {
			one["output_validation"] = checks
		}
		if page.Status != nil {
			one["grant_status"] = page.Status[c.Name]
		}
		out = append(out, one)
	}
	b := map[string]any{"capabilities": out, "next_cursor": nil, "has_more": page.Next != ""}
	if page.Next != "" {
		b["next_cursor"] = page.Next
	}
	return answer{header: header, body: b}, nil
}

// describe answers section 5.2.1.
func (a *API) describe(r *http.Request) (answer, error) {
	v, header, err := a.viewer(r)
	if err != nil {
		return answer{}, err
	}
	c, status, err := a.config.Provider.Describe(v, r.URL.Query().Get("name"))
	if err != nil {
		return answer{}, err
	}
	b := struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Input       json.RawMessage `json:"input,omitempty"`
		Output      json.RawMessage `json:"output,omitempty"`
		Checks      string          `json:"output_validation,omitempty"`
		Location    string          `json:"location,omitempty"`
		Status      string          `json:"grant_status,omitempty"`
		Bound       bool            `json:"dpop_bound_access_tokens_required,omitempty"` // as RFC 9728 has it
	}{c.Name, c.Description, raw(c.Input), raw(c.Output), c.Checks(), c.Location, status, a.config.Provider.WantsProof(c)}
	return answer{header: header, body: b}, nil
}

// execute answers section 5.11, by which a stream can come.
func (a *API) execute(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, a.config.BodyLimit)
	out, err := a.executed(r)
	switch {
	case err != nil:
		a.refuse(w, r, err)
	case out.Failed != nil:
		a.refuse(w, r, out.Failed)
	case out.Stream != nil:
		a.stream(w, r, &out)
	default:
		a.reply(w, a.shown(&out))
	}
}

func (a *API) executed(r *http.Request) (provider.Executed, error) {
	if err := a.limits.allow(r); err != nil {
		return provider.Executed{}, err
	}
	leave, err := a.enter(r)
	if err != nil {
		return provider.Executed{}, err
	}
	defer leave()
	s, err := a.agent(r, provider.Once, a.config.Provider.Audiences()...)
	if err != nil {
		return provider.Executed{}, err
	}
	came, v, err := received(r)
	if err != nil {
		return provider.Executed{}, err
	}
	return a.one(r, s, v, came, leave)
}

// one executes the capability that a body, or a part of a batch, names, with the bytes
// that came. decided is called when the decision is on record, or there is none.
func (a *API) one(r *http.Request, s provider.Session, v powerbox.Value, came []byte, decided func()) (provider.Executed, error) {
	name, err := text(v, "capability")
	if err != nil {
		return provider.Executed{}, err
	}
	if name == "" {
		return provider.Executed{}, agentauth.Errorf(agentauth.CodeInvalidRequest, "capability is missing")
	}
	if err := a.limits.execution(s.Agent.ID, s.Host.ID, s.Agent.User, name); err != nil {
		return provider.Executed{}, err
	}
	arguments, _ := v.Get("arguments")
	return a.config.Provider.Execute(r.Context(), s, provider.Call{
		Capability: name, Arguments: arguments, Received: a2a.Member(came, "arguments"), Decided: decided, Task: strings.Join(r.Header.Values("Powerbox-Task"), " "),
	})
}

// shown returns the result of an execution on the wire: exactly one of the shapes
// (AAP-E2, AAP-E3).
func (a *API) shown(out *provider.Executed) answer {
	header := http.Header{"Powerbox-Decision": {out.Decision()}}
	if out.Job == "" {
		return answer{header: header, body: map[string]any{"data": data(out.Data)}}
	}
	if out.Retry > 0 {
		header.Set("Retry-After", strconv.Itoa(out.Retry))
	}
	return answer{
		status: http.StatusAccepted, header: header,
		body: map[string]any{"status": agentauth.Pending, "status_url": a.config.Provider.URL() + PathJob + out.Job},
	}
}

// data is a result, of which null is one.
func data(v powerbox.Value) json.RawMessage { return v.AppendJSON(nil) }

// job answers a poll (AAP-E3, AAP-E4). A token may be shown again: the protocol's
// own client does.
func (a *API) job(r *http.Request) (answer, error) {
	s, err := a.agent(r, provider.Again, append(a.config.Provider.Audiences(), a.config.Provider.URL(), a.config.Provider.URL()+PathJob+r.PathValue("job"))...)
	if err != nil {
		return answer{}, err
	}
	out, err := a.config.Provider.Poll(r.Context(), s, r.PathValue("job"))
	switch {
	case err != nil:
		return answer{}, err
	case out.Failed != nil:
		return answer{body: map[string]any{"status": "failed", "error": json.RawMessage(out.Failed.JSON().AppendJSON(nil))}}, nil
	case out.Job != "":
		header := http.Header{}
		if out.Retry > 0 {
			header.Set("Retry-After", strconv.Itoa(out.Retry))
		}
		return answer{header: header, body: map[string]any{"status": agentauth.Pending}}, nil
	}
	return answer{body: map[string]any{"status": "completed", "result": data(out.Data)}}, nil
}

// maxBatch is how many executions one request may bring.
const maxBatch = 50

// batch answers the protocol's own client, which sends several executions at once
// (AAP-E11). Each is decided and recorded alone.
func (a *API) batch(r *http.Request) (answer, error) {
	if a.config.Queue.Full() {
		a.config.Queue.Refused()
		return answer{}, overloaded()
	}
	// Its parts are executions at the provider's own location, and the token is for
	// that: the issuer is no audience of theirs but by the switch (AAP-J3).
	s, err := a.agent(r, provider.Once, append(a.config.Provider.Audiences(), a.config.Provider.URL()+PathBatch)...)
	if err != nil {
		return answer{}, err
	}
	came, v, err := received(r)
	if err != nil {
		return answer{}, err
	}
	list, _ := v.Get("requests")
	requests, ok := list.Elements()
	if !ok || len(requests) == 0 || len(requests) > maxBatch {
		return answer{}, agentauth.Errorf(agentauth.CodeInvalidRequest, "requests; want an array of 1 to %d executions", maxBatch)
	}
	ids := make([]string, len(requests))
	for n, one := range requests { // before any: a request that is refused as a whole does nothing
		if ids[n], err = text(one, "id"); err != nil {
			return answer{}, err
		}
		ids[n] = cmp.Or(ids[n], strconv.Itoa(n))
	}
	parts := a2a.Elements(a2a.Member(came, "requests"))
	if len(parts) != len(requests) {
		return answer{}, errors.New("the parts of a batch were not found in its bytes") // cannot happen
	}
	out := make([]map[string]any, 0, len(requests))
	for n, one := range requests {
		out = append(out, a.part(r, s, ids[n], one, parts[n]))
	}
	return answer{body: map[string]any{"responses": out}}, nil
}

// part is one answer of a batch.
func (a *API) part(r *http.Request, s provider.Session, id string, v powerbox.Value, came []byte) map[string]any {
	done, err := a.placed(r, s, v, came)
	if err == nil && done.Failed != nil {
		err = done.Failed
	}
	if err == nil && done.Stream != nil {
		_ = done.Stream.Close()                                                              // it is not read
		err = cmp.Or(a.config.Provider.Ended(r.Context(), &done, evidence.Partial, "batch"), // the service was asked
			error(agentauth.Errorf(agentauth.CodeInvalidRequest, "a stream cannot come in a batch; execute it alone")))
	}
	var e *agentauth.Error
	switch {
	case errors.As(err, &e):
		return map[string]any{"id": id, "status": "failed", "error": map[string]any{"code": e.Code, "message": e.Message}}
	case err != nil:
		return map[string]any{"id": id, "status": "failed", "error": map[string]any{"code": agentauth.CodeInternal, "message": "the call failed; the server's log says why"}}
	case done.Job != "":
		return map[string]any{"id": id, "status": agentauth.Pending, "status_url": a.config.Provider.URL() + PathJob + done.Job}
	}
	return map[string]any{"id": id, "status": "completed", "data": data(done.Data)}
}

// streamLook is how often a stream is looked at while nothing flows.
const streamLook = 500 * time.Millisecond

// stream passes the events of a backend on, each as one of the protocol's, until
// its end, its time is over, or the grant is taken back (AAP-E5, ATK-24, ATK-33).
func (a *API) stream(w http.ResponseWriter, r *http.Request, out *provider.Executed) {
	defer func() { _ = out.Stream.Close() }() // the backend's to mind
	defer shed.Pause(r.Context())()           // a stream has limits of its own
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Powerbox-Decision", out.Decision())
	write := func(event string, data []byte) error { return a.send(w, eventOf(event, data)) }
	end := a.events(r, out, write)
	// The outcome is on record before the reader can know that this is the end.
	err := a.config.Provider.Ended(r.Context(), out, end.status, end.cause)
	var e *agentauth.Error
	switch {
	case err == nil:
	case errors.As(err, &e):
		a.config.Log.ErrorContext(r.Context(), "the outcome of a stream was not recorded", "record", out.Decision())
		end.why, end.data = e, nil
	default:
		end.why, end.data = agentauth.Errorf(agentauth.CodeUnrecorded, "the outcome of the stream could not be recorded"), nil
	}
	if end.why != nil {
		_ = write("error", end.why.JSON().AppendJSON(nil)) // the client may have gone
	}
	_ = write("done", end.data)
}

// ending is how a stream ends.
type ending struct {
	status evidence.OutcomeStatus
	cause  string
	why    *agentauth.Error // told before the end; nil for nothing
	data   []byte           // of the last event
}

type event struct {
	name string
	data []byte
	err  error
}

func (a *API) events(r *http.Request, out *provider.Executed, write func(string, []byte) error) ending {
	come := make(chan event)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			name, data, err := out.Stream.Next()
			select {
			case come <- event{name, data, err}:
			case <-stop:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	end := time.NewTimer(a.config.MaxStream)
	defer end.Stop()
	look := time.NewTicker(streamLook)
	defer look.Stop()
	var passed passed
	for {
		var why *agentauth.Error
		select {
		case e := <-come:
			switch {
			case errors.Is(e.err, io.EOF):
				return passed.ended(nil, nil)
			case e.err != nil:
				why = agentauth.Errorf(agentauth.CodeInternal, "the stream of the capability's service broke off")
			case !a.config.Provider.GoesOn(r.Context(), out):
				why = agentauth.Errorf(agentauth.CodeNotGranted, "what the stream was opened under has been taken back")
			case e.name == "done":
				return passed.ended(e.data, nil)
			default:
				passed.note(e.name)
				if err := write(e.name, e.data); err != nil {
					return passed.ended(nil, err)
				}
			}
		case <-look.C:
			if !a.config.Provider.GoesOn(r.Context(), out) {
				why = agentauth.Errorf(agentauth.CodeNotGranted, "what the stream was opened under has been taken back")
			}
		case <-end.C:
			why = agentauth.Errorf(agentauth.CodeLimit, "the stream has been open for %s, which is as long as one may be", a.config.MaxStream)
		case <-a.config.Done:
			why = agentauth.Errorf(agentauth.CodeUnavailable, "the server ends; open the stream again")
		case <-r.Context().Done():
			return passed.ended(nil, r.Context().Err())
		}
		if why != nil {
			return ending{status: evidence.Partial, cause: string(why.Code), why: why}
		}
	}
}

// passed notes the events of a stream that were passed on.
type passed struct{ told, failed bool }

func (p *passed) note(event string) {
	if event == "error" {
		p.failed = true
	} else {
		p.told = true
	}
}

// ended is the outcome of a stream that came to its end, or, with an error, that its
// reader left. A stream that the service calls failed is never achieved.
func (p *passed) ended(data []byte, left error) ending {
	switch {
	case p.failed && p.told:
		return ending{status: evidence.Failed, cause: provider.CauseMidway, data: data}
	case p.failed:
		return ending{status: evidence.Failed, cause: provider.CauseService, data: data}
	case left != nil:
		return ending{status: evidence.Partial, cause: "left", data: data}
	}
	return ending{status: evidence.Achieved, data: data}
}

// eventOf is one event. Data is JSON on one line, so that nothing in it can begin
// another.
func eventOf(name string, data []byte) []byte {
	b := append(append([]byte("event: "), name...), "\ndata: "...)
	return append(append(b, data...), "\n\n"...)
}

// writeTime is how long the reader of a stream may take for one event. A slower one
// counts as gone: the stream ends, with its share of the service and of the server. A
// revocation is looked for at the latest then.
const writeTime = 10 * time.Second

// send passes on a part of a stream, in time.
func (a *API) send(w http.ResponseWriter, part []byte) error {
	out := http.NewResponseController(w)
	if err := out.SetWriteDeadline(a.config.Now().Add(writeTime)); err != nil {
		return err
	}
	if _, err := w.Write(part); err != nil {
		return err
	}
	return out.Flush()
}

// introspect answers section 5.12, always with 200 (AAP-I1). With capability and
// arguments it also says whether they are within the grants, and with proof whether
// that of a bound token holds, which is ours (AAP-I6, AAP-J9).
func (a *API) introspect(r *http.Request) (answer, error) {
	if a.config.Introspector != nil && !a.config.Introspector(r) {
		return answer{}, agentauth.Errorf(agentauth.CodeUnauthenticated, "introspection is for services that the operator knows")
	}
	if a.config.Introspector == nil {
		if err := a.limits.introspection(r); err != nil {
			return answer{}, err
		}
	}
	v, err := body(r)
	if err != nil {
		return answer{}, err
	}
	var token, capability string
	if err := texts(v, map[string]*string{"token": &token, "capability": &capability}); err != nil {
		return answer{}, err
	}
	arguments, _ := v.Get("arguments")
	shown := provider.Presented{Token: token}
	if proof, ok := v.Get("proof"); ok {
		shown.Scheme, shown.Proofs = "DPoP", []string{""}
		if err := texts(proof, map[string]*string{"dpop": &shown.Proofs[0], "method": &shown.Method, "url": &shown.URL}); err != nil {
			return answer{}, err
		}
	}
	out, active, err := a.config.Provider.Introspect(r.Context(), shown, capability, arguments)
	if err != nil {
		return answer{}, err
	}
	if !active {
		return answer{body: map[string]any{"active": false}}, nil
	}
	grants := make([]map[string]any, 0, len(out.Grants))
	for _, g := range out.Grants {
		grants = append(grants, map[string]any{"capability": g.Capability, "status": g.Status})
	}
	b := map[string]any{
		"active": true, "agent_id": out.Session.Agent.ID, "host_id": out.Session.Host.ID, "agent_capability_grants": grants,
		"mode": out.Session.Agent.Mode, "expires_at": stamp(out.Expires), "aud": out.Session.Audience(),
	}
	if out.Session.Agent.User != "" {
		b["user_id"] = out.Session.Agent.User
	}
	if out.Confirmation != nil {
		b["cnf"] = out.Confirmation
	}
	if out.Proven {
		b["proven"] = true
	}
	if out.Decision != nil {
		b["allowed"] = out.Decision.Allowed
	}
	return answer{body: b}, nil
}
