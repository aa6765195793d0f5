package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/token"
)

// maxAnswer bounds an answer of the gateway, in bytes.
const maxAnswer = 4 << 20

// town is the running binary in front of a suite's tools, and the user's client.
type town struct {
	suite   *suite
	dir     string
	tools   *tools
	gateway *gateway
	client  *holder.Client
	agent   holder.Agent
}

// newTown starts everything.
func newTown(ctx context.Context, binary string, s *suite, labels bool) (t *town, err error) {
	t = &town{suite: s}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	if t.dir, err = os.MkdirTemp("", "powerbox-agentdojo"); err != nil {
		return nil, err
	}
	if t.tools, err = serveTools(ctx, s); err != nil {
		return nil, err
	}
	key, err := token.GenerateKey(token.Ed25519, rand.Reader)
	if err != nil {
		return nil, err
	}
	if t.gateway, err = serveGateway(ctx, binary, t.dir, s, t.tools.url, key.Public().Thumbprint(), labels); err != nil {
		return nil, err
	}
	t.client = &holder.Client{
		Key: key, HTTP: &http.Client{Timeout: patience}, Now: time.Now, Random: rand.Reader,
		Session: func(context.Context, string) (string, error) { return session, nil },
	}
	t.agent, err = t.client.Discover(ctx, t.gateway.url)
	return t, err
}

// close ends the gateway and the other started processes.
func (t *town) close() error {
	var err error
	if t.gateway != nil {
		err = t.gateway.end()
	}
	if t.tools != nil {
		err = errors.Join(err, t.tools.server.Close())
	}
	return errors.Join(err, os.RemoveAll(t.dir))
}

// grant is the capability of one task: what the issuer gave for its tools, which
// the user's program narrows to the pins, offline, for the agent that does the task. A link of a chain names all arguments
// of a tool that it constrains, so there is one for each set of arguments that
// calls have; all of them have the same pins.
type grant struct {
	town      *town
	authority authority
	root      string
	key       *token.PrivateKey   // of the agent that does the task
	chains    map[string][]string // by the names of the arguments of a call
}

// grant asks for what an authority needs, before any tool was called for the
// task. An authority without tools is no capability at all.
func (t *town) grant(ctx context.Context, a authority) (*grant, error) {
	key, err := token.GenerateKey(token.Ed25519, rand.Reader)
	if err != nil {
		return nil, err
	}
	g := &grant{town: t, authority: a, key: key, chains: map[string][]string{}}
	if len(a.tools) == 0 {
		return g, nil
	}
	names := make([]string, 0, len(a.tools))
	for _, one := range a.tools {
		names = append(names, one.Name)
	}
	given, err := t.client.Request(ctx, t.agent, holder.RequestParams{Grants: []string{t.suite.Name + ":use"}, Operations: names, Purpose: "A task of the user"})
	if err != nil {
		return nil, err
	}
	if len(given) != 1 || len(given[0].Chain) != 1 {
		return nil, errors.New("the issuer gave no token of its own")
	}
	g.root = given[0].Chain[0]
	return g, nil
}

// chain returns the capability chain that the caller presents with a call.
func (g *grant) chain(c call, arguments powerbox.Value) ([]string, error) {
	present := g.present(c, arguments)
	id := c.Function + " " + strings.Join(present, ",")
	if chain, ok := g.chains[id]; ok {
		return chain, nil
	}
	u, err := token.ParseChain([]string{g.root})
	if err != nil {
		return nil, err
	}
	// The issuer is asked over loopback; the gateway verifies what it is shown.
	v, err := u.UnsafeTrustRoot(token.Options{Now: time.Now(), Revoked: token.UnsafeNothingRevoked})
	if err != nil {
		return nil, err
	}
	var clauses []powerbox.Clause
	for _, clause := range v.Tools() {
		if name := g.town.toolOf(clause.Pattern.Name()); g.authority.pins[name] != nil {
			names := present
			if name != c.Function {
				names = g.present(call{Function: name}, powerbox.Object())
			}
			if clause.Shape, err = g.shape(name, names); err != nil {
				return nil, err
			}
		}
		clauses = append(clauses, clause)
	}
	link, err := token.Derive(v, g.town.client.Key, token.Narrowing{ID: rand.Text(), Now: time.Now(), Tools: clauses, Holder: g.key.Public()})
	if err != nil {
		return nil, err
	}
	g.chains[id] = []string{g.root, link}
	return g.chains[id], nil
}

// toolOf is the tool that is mapped to an operation, "" for an operation of the
// protocol.
func (t *town) toolOf(operation string) string {
	for name, skill := range t.agent.Skills {
		if skill.Operation.String() == operation {
			return name
		}
	}
	return ""
}

// present are the arguments of a tool that a link for a call names: those that
// are required, and of the others those that the call has.
func (g *grant) present(c call, arguments powerbox.Value) []string {
	one, _ := g.town.suite.tool(c.Function)
	var names []string
	for _, a := range one.arguments {
		if _, has := arguments.Get(a.Name); has || a.Required {
			names = append(names, a.Name)
		}
	}
	return names
}

// shape constrains the arguments of a tool: the pinned ones to their values, the
// others to be there.
func (g *grant) shape(name string, arguments []string) (powerbox.Shape, error) {
	var fields []powerbox.Field
	for _, a := range arguments {
		f := powerbox.Field{Name: a, Constraint: powerbox.Wildcard{}, Required: true}
		if i := slices.IndexFunc(g.authority.pins[name], func(p pin) bool { return p.Argument.Name == a }); i >= 0 {
			f.Constraint = g.authority.pins[name][i].Constraint
		}
		fields = append(fields, f)
	}
	return powerbox.NewShape(powerbox.RestNone, fields...)
}

// outcome is what became of a call.
type outcome struct {
	allowed bool
	reason  string // code of the refusal
	message string
}

// deciding are the reasons that count as a refusal: what the grant does not
// hold. Any other is a fault of the replay.
var deciding = []string{"operation_not_granted", "argument_constraint", "argument_missing", "argument_unknown", waits}

// waits is the code of a call that a person must approve, because its caller read untrusted data.
const waits = "approval_required"

// try makes a call under the grant.
func (g *grant) try(ctx context.Context, c call) (outcome, error) {
	arguments, err := powerbox.ParseValue(c.Args)
	if err != nil {
		return outcome{}, fmt.Errorf("arguments of %s: %w", c.Function, err)
	}
	body, err := toolCall(c)
	if err != nil {
		return outcome{}, err
	}
	header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	reasons := []string{"capability_required"}
	if g.root != "" {
		reasons = deciding
		if err := g.prove(header, c, arguments, body); err != nil {
			return outcome{}, err
		}
	}
	before, _ := g.town.tools.called()
	out, err := g.town.post(ctx, header, body)
	if err != nil {
		return out, fmt.Errorf("%s: %w", c.Function, err)
	}
	after, last := g.town.tools.called()
	switch {
	case out.allowed && (after != before+1 || last != c.Function):
		return out, fmt.Errorf("%s was answered and did not reach its server", c.Function)
	case !out.allowed && after != before:
		return out, fmt.Errorf("%s was refused and reached its server", c.Function)
	case !out.allowed && !slices.Contains(reasons, out.reason):
		return out, fmt.Errorf("%s was refused for a reason that is none of the grant: %s: %s", c.Function, out.reason, out.message)
	}
	return out, nil
}

// prove puts the capability and the proof for one call on its headers.
func (g *grant) prove(header http.Header, c call, arguments powerbox.Value, body []byte) error {
	chain, err := g.chain(c, arguments)
	if err != nil {
		return err
	}
	proof, err := token.SignProof(chain, g.key, token.Proof{
		ID: rand.Text(), IssuedAt: time.Now(), Operation: g.town.operation(c.Function), Arguments: arguments,
		Audience: g.town.agent.Issuer, Request: &token.Request{Method: http.MethodPost, URL: g.town.agent.URL, Digest: token.DigestOf(body)},
	})
	header.Set(holder.HeaderCapability, token.JoinChain(chain))
	header.Set(holder.HeaderProof, proof)
	return err
}

// operation is what a tool is mapped to.
func (t *town) operation(tool string) string { return t.agent.Skills[tool].Operation.String() }

// post sends one message and reads what became of it.
func (t *town) post(ctx context.Context, header http.Header, body []byte) (outcome, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.agent.URL, bytes.NewReader(body))
	if err != nil {
		return outcome{}, err
	}
	r.Header = header
	response, err := t.client.HTTP.Do(r)
	if err != nil {
		return outcome{}, err
	}
	defer func() { _ = response.Body.Close() }() // it was read
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return outcome{}, err
	}
	var answer struct {
		Result *struct {
			IsError bool `json:"isError"`
		}
		Error *struct {
			Message string
			Data    []struct{ Metadata map[string]string }
		}
	}
	switch err := json.Unmarshal(raw, &answer); {
	case err != nil:
		return outcome{}, fmt.Errorf("HTTP status %s: %.300s", response.Status, raw)
	case answer.Result != nil && answer.Error == nil && !answer.Result.IsError:
		return outcome{allowed: true}, nil
	case answer.Error != nil && len(answer.Error.Data) > 0:
		return outcome{reason: answer.Error.Data[0].Metadata["code"], message: answer.Error.Message}, nil
	}
	return outcome{}, fmt.Errorf("HTTP status %s: %.300s", response.Status, raw)
}
