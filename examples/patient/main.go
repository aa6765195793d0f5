// Command patient is the second worked example of the authorization extension:
// a patient's record, read within the bounds of one episode of care, with no word
// about the patient in the evidence (EXT-31, docs/tutorials/worked-examples.md).
//
// Dr. Grey's agent may read and write the records of the patients on her ward. For
// a second opinion it passes reading on to a consultant's agent, until the episode
// ends. What the consultant, and an insurer that has seen the link, try beyond
// that is refused.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/examples/premises"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/token"
)

func main() {
	premises.Main("patient", func(ctx context.Context) error {
		_, err := run(ctx, os.Stdout, "")
		return err
	})
}

// Words about patients, which must be in no record.
const (
	patientName   = "Jane Roe"
	patientNumber = "mrn-0047113"
	patientText   = "penicillin allergy, suspected endocarditis"
	otherName     = "John Doe"
	otherNumber   = "mrn-0051200"
	question      = "Does Jane's fever fit the valve?"
)

// private is every text that the evidence is searched for.
var private = []string{patientName, patientNumber, patientText, otherName, otherNumber, question, "penicillin", "endocarditis", "fever", "Jane"}

const (
	scopeRead  = "records.read.retrieve"
	scopeWrite = "records.write.amend"
)

const configuration = `offers:
  records:
    - {id: records:read, description: Read a patient's record, operations: [retrieve], maximum_lifetime: 30m}
    - {id: records:write, description: Amend a patient's record, operations: [amend]}
skills:
  records:
    - {skill: read_record, grant: records:read, operation: retrieve, handle: record, effect: read, arguments: {record: {constraint_type: wildcard}, question: {constraint_type: wildcard}}}
    - {skill: amend_record, grant: records:write, operation: amend, handle: record, arguments: {record: {constraint_type: wildcard}, text: {constraint_type: wildcard}}}
resources:
  records:
    items:
      - {collection: records, id: ` + patientNumber + `, name: "Record of ` + patientName + `", attributes: {episode: E-2026-117, ward: cardiology}}
      - {collection: records, id: ` + otherNumber + `, name: "Record of ` + otherName + `", attributes: {episode: E-2026-130, ward: cardiology}}
`

const policies = `@description("the ward reads and amends the records of its patients")
permit(principal in Group::"cardiology", action in [Action::"records/records:read", Action::"records/records:write"], resource in Collection::"records/records")
when { resource.attributes.ward == "cardiology" };
`

// patient is one run.
type patient struct {
	*premises.Story
	audit  premises.Audit
	place  *premises.Premises
	writes premises.Effects
	// doctor has a session; consultant and insurer work elsewhere.
	doctor, consultant, insurer *premises.Caller

	records     string // the agent's public URL
	episodeEnds time.Time
	held        holder.Capability // of the doctor: the patient's record, for the episode
	opinion     holder.Capability // of the consultant: reading it
}

// run tells the story; more is added to the configuration.
func run(ctx context.Context, out io.Writer, more string) (_ *patient, err error) {
	p := &patient{Story: premises.NewStory(out)}
	records := premises.Agent{Name: "Records", Skills: map[string]premises.Skill{"read_record": p.read, "amend_record": p.amend}}
	p.place, err = premises.Open(ctx, premises.Setting{
		Agents: map[string]premises.Agent{"records": records}, Configuration: configuration + more, Policies: policies, User: "grey", Group: "cardiology",
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.place.Close()) }()
	p.records = p.place.Agent("records")
	for caller, session := range map[**premises.Caller]string{&p.doctor: p.place.Session, &p.consultant: "", &p.insurer: ""} {
		if *caller, err = p.place.Caller(session); err != nil {
			return nil, err
		}
	}
	if err := p.episode(ctx); err != nil {
		return nil, err
	}
	if err := p.beyond(ctx); err != nil {
		return nil, err
	}
	p.audit = p.Audited(ctx, p.place)
	p.silent()
	return p, p.Err()
}

// read answers with a record that the gateway has named for this very call.
func (p *patient) read(_ context.Context, in premises.Incoming) (string, error) {
	handle, _ := in.Arguments["record"].(string)
	if in.Resources[handle] != patientNumber {
		return "", errors.New("there is no such record")
	}
	return patientText, nil
}

func (p *patient) amend(context.Context, premises.Incoming) (string, error) {
	return fmt.Sprintf("version %d", p.writes.Add()+1), nil
}

// ask requests one grant on the record of one episode.
func (p *patient) ask(ctx context.Context, grant, episode string) (holder.Capability, error) {
	text := func(name, value string) powerbox.Member {
		return powerbox.Member{Name: name, Value: powerbox.String(value)}
	}
	filter := powerbox.Member{Name: "filter", Value: powerbox.Object(text("episode", episode))}
	return p.doctor.Ask(ctx, p.records, holder.RequestParams{
		Grants: []string{grant}, Purpose: "Second opinion in episode " + episode,
		Query: powerbox.Object(text("collection", "records"), filter), Expires: p.episodeEnds,
	})
}

// consult reads a record as someone, with a question that names the patient.
func (p *patient) consult(ctx context.Context, as *premises.Caller, held holder.Capability, record string) (string, error) {
	return as.Call(ctx, p.records, held, "read_record", map[string]any{"record": record, "question": question})
}

// episode is the second opinion as it should go.
func (p *patient) episode(ctx context.Context) (err error) {
	p.episodeEnds = p.doctor.Now().Add(10 * time.Minute).UTC().Truncate(time.Second)
	if p.held, err = p.ask(ctx, "records:read", "E-2026-117"); err != nil {
		return err
	}
	p.Say("Dr. Grey's agent was issued %s on %s, until the episode ends.", scopeRead, p.held.Handles[0].DisplayName)
	if p.opinion, err = p.doctor.Link(p.held, holder.Link{To: p.consultant.DID(), Scopes: []string{scopeRead}, Expires: p.episodeEnds}); err != nil {
		return err
	}
	answer, err := p.consult(ctx, p.consultant, p.opinion, p.held.Handles[0].Handle)
	p.Allowed("the consultant reads the record, and asks about the patient", answer, err)
	own, err := p.ask(ctx, "records:write", "E-2026-117")
	if err != nil {
		return err
	}
	answer, err = p.amends(ctx, p.doctor, own, own.Handles[0].Handle)
	p.Allowed("Dr. Grey notes the opinion, under a token that goes to nobody", answer, err)
	return nil
}

// amends writes to a record as someone.
func (p *patient) amends(ctx context.Context, as *premises.Caller, held holder.Capability, record string) (string, error) {
	return as.Call(ctx, p.records, held, "amend_record", map[string]any{"record": record, "text": patientText})
}

// beyond has consultant and insurer try what they were not given.
func (p *patient) beyond(ctx context.Context) error {
	other, err := p.ask(ctx, "records:read", "E-2026-130")
	if err != nil {
		return err
	}
	record := p.held.Handles[0].Handle
	reads := func(as *premises.Caller, held holder.Capability, record string) error {
		_, err := p.consult(ctx, as, held, record)
		return err
	}
	linked := func(claims token.LinkClaims) holder.Capability {
		out, err := p.doctor.Forge(p.held, claims)
		if err != nil {
			p.Fail("signing a link: %v", err)
		}
		return out
	}
	p.Say("Beyond reading it within the episode, nothing goes:")
	_, err = p.amends(ctx, p.consultant, p.opinion, record)
	p.Refused("the consultant amends the record", "operation_not_granted", err)
	p.Refused("the consultant reads another patient's record", "handle_not_granted", reads(p.consultant, p.opinion, other.Handles[0].Handle))
	p.Refused("the insurer has seen the link, and reads", "delegate_not_caller", reads(p.insurer, p.opinion, record))
	now := p.doctor.Now().UTC().Truncate(time.Second)
	to := func(claims token.LinkClaims) token.LinkClaims {
		claims.Delegate, claims.Scopes = p.consultant.DID(), append([]string{scopeRead}, claims.Scopes...)
		return claims
	}
	last := linked(to(token.LinkClaims{IssuedAt: now.Add(-2 * time.Hour), ExpiresAt: now.Add(-time.Hour)}))
	p.Refused("the consultant reads under a link that has ended", "expired", reads(p.consultant, last, record))
	p.Refused("a link that is good until a day after the episode", "temporal_exceeds_parent",
		reads(p.consultant, linked(to(token.LinkClaims{ExpiresAt: p.episodeEnds.Add(24 * time.Hour)})), record))
	p.Refused("a link that adds amending", "scope_escalation", reads(p.consultant, linked(to(token.LinkClaims{Scopes: []string{scopeWrite}})), record))
	if n := p.writes.Count(); n != 1 {
		p.Fail("the record was amended %d times; want 1, by Dr. Grey", n)
	}
	return nil
}

// silent looks for the patients in all that was exported, and first for what must
// be there: a search that finds nothing anywhere shows nothing.
func (p *patient) silent() {
	for _, there := range []string{"retrieve", "operation_not_granted", "handle_not_granted", p.consultant.Key.Public().Thumbprint()} {
		if !bytes.Contains(p.audit.Bundle, []byte(there)) {
			p.Fail("the evidence does not have %q", there)
		}
	}
	if found := mentions(p.audit.Bundle); len(found) > 0 {
		p.Fail("the evidence has words about the patients: %s", strings.Join(found, ", "))
		return
	}
	p.Say("Who read what, when and on whose authority is on record; of %d texts about the patients, none is.", len(private))
}

// mentions is which private texts are in a bundle.
func mentions(bundle []byte) []string {
	var found []string
	for _, text := range private {
		if bytes.Contains(bytes.ToLower(bundle), bytes.ToLower([]byte(text))) {
			found = append(found, text)
		}
	}
	return found
}
