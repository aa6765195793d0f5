package evidence

import "encoding/json"

// form goes over the members of a record in the order of RFC 8785, to write
// them or to read them. It is the short way for the records that are usual,
// and refuses nothing: if a form does not recognise a record, encoding/json
// and [Canonical] judge it and name its error.
type form interface {
	text(name string, value *string)            // always there
	optional(name string, value *string)        // there unless it is empty
	list(name string, values *[]string)         // there unless it is empty
	object(name string, value *json.RawMessage) // there unless it is empty
	number(name string, value *int64)
	link(name string, value **int) // there unless it is nil
	hex(name string, value []byte)
	begins(name string)                           // an object that is always there
	opens(name string, there bool) bool           // an object that may be
	item(name string, index int, there bool) bool // an object of a list
	closes()                                      // an object that was opened, or an item
	hashes(w *wire)                               // where prev_record_hash and record_hash stand, which no body has
	signature(w *wire)                            // where the signature stands, which no body has
}

// walk shows every member to f. Members come by their names in ascending
// order, which are ASCII.
func (w *wire) walk(f form) {
	f.text("action_type", &w.ActionType)
	f.text("agent_id", &w.AgentID)
	f.text("decision", (*string)(&w.Decision))
	f.begins("intent")
	f.object("details", &w.Intent.Details)
	f.text("operation", &w.Intent.Operation)
	f.optional("purpose", &w.Intent.Purpose)
	f.closes()
	f.object("outcome", &w.Outcome)
	f.optional("outcome_status", (*string)(&w.OutcomeStatus))
	f.begins("powerbox")
	w.Details.walk(f)
	f.closes()
	f.hashes(w)
	f.text("record_id", &w.ID)
	f.signature(w)
	f.optional("signature_algorithm", &w.Algorithm)
	f.optional("task_id", &w.TaskID)
	f.text("timestamp_utc", &w.Timestamp)
	f.closes()
}

func (d *Details) walk(f form) {
	f.object("arguments", &d.Arguments)
	f.optional("attempt", &d.Attempt)
	f.optional("body_commitment", &d.BodyCommitment)
	f.optional("capability", &d.Capability)
	f.hex("chain_id", d.ChainID[:])
	f.list("erased", &d.Erased)
	f.list("exercised", &d.Exercised)
	if f.opens("gate", d.Gate != nil) {
		if d.Gate == nil {
			d.Gate = &Gate{}
		}
		d.Gate.walk(f)
		f.closes()
	}
	f.list("granted", &d.Granted)
	f.optional("mode", &d.Mode)
	f.optional("outcome_of", &d.OutcomeOf)
	f.optional("policy_digest", &d.PolicyDigest)
	f.optional("principal", &d.Principal)
	for i := 0; f.item("reasons", i, i < len(d.Reasons)); i++ {
		if i == len(d.Reasons) {
			d.Reasons = append(d.Reasons, Reason{})
		}
		d.Reasons[i].walk(f)
		f.closes()
	}
	f.text("recorder", &d.Recorder)
	f.optional("requester", &d.Requester)
	f.number("revocation_sequence", &d.RevocationSequence)
	f.number("sequence", &d.Sequence)
	f.optional("signatures", (*string)(&d.Signatures))
	f.optional("signing_key_id", &d.SigningKeyID)
	f.optional("tenant", &d.Tenant)
	f.optional("trace_id", &d.TraceID)
}

func (g *Gate) walk(f form) {
	f.list("allowed", &g.Allowed)
	f.list("missing", &g.Missing)
	f.text("origin", &g.Origin)
	f.list("required", &g.Required)
	f.text("target", &g.Target)
}

func (r *Reason) walk(f form) {
	f.optional("argument", &r.Argument)
	f.text("code", &r.Code)
	f.optional("constraint", &r.Constraint)
	f.link("link", &r.Link)
	f.optional("message", &r.Message)
	f.optional("operation", &r.Operation)
}

// maxQuick is the size in bytes of the largest text of which a form is sure:
// with every character escaped it is still no larger than [MaxRecord].
const maxQuick = MaxRecord / 8

// body returns the canonical bytes that are hashed: the record, which has passed
// check, without record_hash, prev_record_hash and signature (EXT-22).
func (w *wire) body() ([]byte, error) {
	if quick, ok := w.quickBody(); ok {
		return quick, nil
	}
	return w.slowBody()
}
