package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
)

// The actions that are no skill of an agent.
const (
	actionHandoff = "powerbox.handoff"
	actionMessage = "a2a.message"
)

const (
	maxAnswer = 1 << 20
	// tellTime bounds the telling of an outcome, which continues when the attempt's
	// own context has ended.
	tellTime = 10 * time.Second
	// maxInterval bounds how long the server can have a client wait between two tries,
	// in seconds.
	maxInterval = 60
)

// Gate is the local gate. It is safe for use by several goroutines.
type Gate struct {
	// URL is the server's, without a path. Required.
	URL string
	// Token is that of one of identity.guards. Required.
	Token string
	// HTTP makes the calls. Required; it should have a timeout.
	HTTP *http.Client
}

// Attempt is one action before it happens.
type Attempt struct {
	// From is the agent that tries, by its name in scopes: the origin. Required
	// unless Shown is there.
	From string
	// To is the agent whose authority it needs: the target. Required.
	To string
	// Skill is the skill of To that is called, or its operation (grant/operation).
	// "" hands a task over.
	Skill string
	// Arguments are those of the skill, a JSON object; none where nil.
	Arguments json.RawMessage
	// Requires are skills or operations of To that a task needs which is handed
	// over. None: what To requires of every task (GATE-5).
	Requires []string
	// Task, Context, Purpose and Trace continue record.
	Task, Context, Purpose, Trace string
	// Shown is a capability that came with the attempt, instead of From.
	Shown *Shown

	message, authority bool
}

// Shown is a capability with its proof, as they came with a request.
type Shown struct {
	Chain  []string `json:"chain"` // compact tokens, root first
	Proof  string   `json:"proof"`
	Method string   `json:"method"` // that the proof must be about
	URL    string   `json:"url"`
	Digest string   `json:"digest"` // token.DigestOf the body
}

// Reason says why something is denied.
type Reason struct {
	Code       string `json:"code"`
	Operation  string `json:"operation"`
	Argument   string `json:"argument"`
	Constraint string `json:"constraint"`
	Message    string `json:"message"`
}

// Decision is the gate's answer, as it is on record.
type Decision struct {
	Allowed  bool     `json:"-"`
	ID       string   `json:"id"` // of the record
	Text     string   `json:"text"`
	Origin   string   `json:"origin"`
	Target   string   `json:"target"`
	Required []string `json:"required"`
	Missing  []string `json:"missing"` // the exact set, sorted
	Reasons  []Reason `json:"reasons"`
	Skills   []string `json:"skills"` // of the target, that the attempt's authority names
	// Ambient says that nothing holds the attempt, as in observe: whatever the target
	// permits. What Skills leaves out is then no reason to hide it.
	Ambient    bool            `json:"ambient"`
	Authority  json.RawMessage `json:"authority"` // what Under reads
	Capability string          `json:"capability"`
	Retryable  bool            `json:"retryable"`
	Pending    *Pending        `json:"pending"` // nil unless a person is asked
}

// Pending says that a person has to approve an attempt, and was asked. The same attempt,
// tried again after that, is allowed once.
type Pending struct {
	ID       string    `json:"id"` // of the question
	URL      string    `json:"approvalUrl"`
	Expires  time.Time `json:"expires"`
	Interval int       `json:"interval"` // seconds between two tries
}

// Refused says that something must not happen. It is a [powerbox.ErrDenied]. The
// text is for the model as well: it names the missing authority, and says not to try again.
type Refused struct{ Decision Decision }

// Error is the text of GATE-3 where a scope is exceeded: the exact missing set.
func (r *Refused) Error() string {
	if r.Decision.Text == "" {
		return "powerbox: not allowed"
	}
	return r.Decision.Text
}

// Unwrap returns [powerbox.ErrDenied].
func (*Refused) Unwrap() error { return powerbox.ErrDenied }

// Code is the code of the first reason, "" without one.
func (r *Refused) Code() string {
	if len(r.Decision.Reasons) == 0 {
		return ""
	}
	return r.Decision.Reasons[0].Code
}

// Check asks whether an attempt may happen. It returns a [*Refused] where it may
// not, and any other error where no answer could be had: then it must not happen
// either.
func (g *Gate) Check(ctx context.Context, a Attempt) (Decision, error) {
	question, err := a.question()
	if err != nil {
		return Decision{}, err
	}
	var answer struct {
		Decision bool     `json:"decision"`
		Context  Decision `json:"context"`
	}
	if err := g.post(ctx, "evaluation", question, &answer); err != nil {
		return Decision{}, err
	}
	d := answer.Context
	if d.Allowed = answer.Decision; !d.Allowed {
		return d, &Refused{d}
	}
	return d, nil
}

// Wait is [Gate.Check] for an attempt that a person may have to approve: it tries again
// until the person has answered, the question has expired or ctx has ended. asked, which
// may be nil, is told of the question once, to send the user to its page.
func (g *Gate) Wait(ctx context.Context, a Attempt, asked func(Pending)) (Decision, error) {
	told := ""
	for {
		d, err := g.Check(ctx, a)
		var refused *Refused
		if !errors.As(err, &refused) || d.Pending == nil {
			return d, err
		}
		if p := *d.Pending; asked != nil && p.ID != told {
			told = p.ID
			asked(p)
		}
		timer := time.NewTimer(time.Duration(min(max(d.Pending.Interval, 1), maxInterval)) * time.Second)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return d, errors.Join(ctx.Err(), err)
		}
	}
}

// Under asks what the right to talk to an agent is held under, for lists whose
// entries are decided on one by one with [powerbox.Decide]: it has the operations
// of the target, with the arguments that they are held to. A [*Refused] means none.
func (g *Gate) Under(ctx context.Context, a Attempt) (powerbox.Authority, Decision, error) {
	a.message, a.authority, a.Skill, a.Arguments, a.Requires = true, true, "", nil, nil
	d, err := g.Check(ctx, a)
	if err != nil {
		return powerbox.Authority{}, d, err
	}
	v, err := powerbox.ParseValue(d.Authority)
	if err != nil {
		return powerbox.Authority{}, d, fmt.Errorf("guard: the gate's answer: authority: %w", err)
	}
	under, err := powerbox.ParseAuthority(v)
	if err != nil {
		err = fmt.Errorf("guard: the gate's answer: %w", err)
	}
	return under, d, err
}

// Skills asks which skills of an agent another one may call, for a list that
// should show no more. A [*Refused] means none.
func (g *Gate) Skills(ctx context.Context, a Attempt) ([]string, Decision, error) {
	a.message, a.Skill, a.Arguments, a.Requires = true, "", nil, nil
	d, err := g.Check(ctx, a)
	return d.Skills, d, err
}

// Outcome tells what became of an attempt that was allowed (EXT-25): failed is the
// error with which it ended, nil for none.
func (g *Gate) Outcome(ctx context.Context, d Decision, failed error) error {
	status := "ACHIEVED"
	if failed != nil {
		status = "FAILED"
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellTime)
	defer cancel()
	return g.post(ctx, "outcome", map[string]any{"id": d.ID, "status": status}, nil)
}

// Do runs something that must be allowed, and tells what became of it.
func (g *Gate) Do(ctx context.Context, a Attempt, run func(context.Context) error) error {
	d, err := g.Check(ctx, a)
	if err != nil {
		return err
	}
	failed := run(ctx)
	return errors.Join(failed, g.Outcome(ctx, d, failed))
}

// question is an attempt in the form of AuthZEN.
func (a Attempt) question() (map[string]any, error) {
	if a.To == "" || a.From == "" && a.Shown == nil {
		return nil, errors.New("guard: an attempt needs From, or a capability that is shown, and To")
	}
	subject, properties, about := map[string]any{"type": "agent", "id": a.From}, map[string]any{}, map[string]any{}
	if a.Shown != nil {
		subject = map[string]any{"type": "capability", "id": "shown"}
		if len(a.Shown.Chain) > 0 {
			about["capability"] = a.Shown
		}
	}
	name := a.Skill
	switch {
	case a.message:
		if name = actionMessage; a.authority {
			properties["authority"] = true
		}
	case name == "":
		name = actionHandoff
		if len(a.Requires) > 0 {
			properties["requires"] = a.Requires
		}
	case len(a.Arguments) > 0 && strings.TrimSpace(string(a.Arguments)) != "null":
		properties["arguments"] = a.Arguments
	}
	for name, text := range map[string]string{"task": a.Task, "context": a.Context, "purpose": a.Purpose, "trace": a.Trace} {
		if text != "" {
			about[name] = text
		}
	}
	return map[string]any{
		"subject": subject, "context": about,
		"action":   map[string]any{"name": name, "properties": properties},
		"resource": map[string]any{"type": "agent", "id": a.To},
	}, nil
}

func (g *Gate) post(ctx context.Context, path string, body, into any) error {
	if g.URL == "" || g.Token == "" || g.HTTP == nil {
		return errors.New("guard: Gate needs URL, Token and HTTP")
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(g.URL, "/")+"/access/v1/"+path, bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+g.Token)
	r.Header.Set("Content-Type", "application/json")
	client := *g.HTTP
	// The token is for the gate alone, and an answer from elsewhere is none.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	answer, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("guard: the gate does not answer, so nothing is allowed: %w", err)
	}
	defer func() { _ = answer.Body.Close() }() // it was read; nothing is lost
	raw, err = io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("guard: the gate's answer: %w", err)
	case len(raw) > maxAnswer:
		return fmt.Errorf("guard: the gate's answer is larger than %d bytes", maxAnswer)
	case answer.StatusCode != http.StatusOK:
		var problem struct{ Detail string }
		_ = json.Unmarshal(raw, &problem) // what it is not is not told
		return fmt.Errorf("guard: the gate answers %s: %s", answer.Status, problem.Detail)
	case into == nil:
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("guard: the gate's answer: %w", err)
	}
	return nil
}
