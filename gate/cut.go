package gate

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
)

// measure is how much of what strangers wrote a record holds: bytes of one text,
// and elements of one list. 0 elements is no bound.
type measure struct{ text, list int }

// measures are tried in turn until the record fits. The first leaves every honest
// record as it is. The last holds even where every byte is escaped to six.
var measures = []measure{{4096, 0}, {1024, 64}, {256, 16}, {64, 4}}

// anonymously is the measure of denials of unknown callers: denials cost them
// nothing, and would fill the log.
const anonymously = 2

// maxStated is the size in bytes of the JSON form above which a record is cut further.
// Members that are added at sealing have room in the rest of [evidence.MaxRecord].
const maxStated = 40 << 10

// fit cuts the texts of a record that strangers wrote, so that it can be recorded
// whatever they are. It is the only place that cuts: each text that is cut ends in
// its length and digest, so that who has the original can prove that it was meant.
func fit(r evidence.Record, anonymous bool) evidence.Record {
	first := 0
	if anonymous {
		first = anonymously
	}
	var out evidence.Record
	for _, m := range measures[first:] {
		out = m.record(r)
		if stated(out) <= maxStated {
			break
		}
	}
	return out
}

// stated is the size in JSON of the texts that are cut. Short texts are not written out
// for it: they fit even where each of their bytes is escaped to six.
func stated(r evidence.Record) int {
	if most := maxEscape * bytesOf(&r); most <= maxStated {
		return most
	}
	return written(&r)
}

// written is the exact size in JSON, more than is allowed for a value that is no JSON.
func written(r *evidence.Record) int {
	data, err := json.Marshal([]any{
		r.TaskID, r.Intent.Operation, r.Intent.Purpose, r.Intent.Details, r.Details.Requester, r.Details.Principal, r.Details.Tenant,
		r.Details.TraceID, r.Details.Capability, r.Details.Granted, r.Details.Exercised, r.Details.Gate, r.Details.Reasons, r.Details.Arguments,
	})
	if err != nil {
		return maxStated + 1
	}
	return len(data)
}

// maxEscape is the longest form in JSON of one byte of a text: \u and four digits.
const maxEscape = 6

// bytesOf counts the bytes of the texts that are cut, and a few for each text and list.
func bytesOf(r *evidence.Record) int {
	const around = 8 // quotation marks, commas, brackets, and the names of members
	d := &r.Details
	size := len(r.TaskID) + len(r.Intent.Operation) + len(r.Intent.Purpose) + len(r.Intent.Details) + len(d.Requester) + len(d.Principal) +
		len(d.Tenant) + len(d.TraceID) + len(d.Capability) + len(d.Arguments) + 16*around
	lists := [][]string{d.Granted, d.Exercised}
	if g := d.Gate; g != nil {
		size += len(g.Origin) + len(g.Target) + 8*around
		lists = append(lists, g.Required, g.Allowed, g.Missing)
	}
	for _, list := range lists {
		for _, text := range list {
			size += len(text) + around
		}
	}
	for _, one := range d.Reasons {
		size += len(one.Code) + len(one.Operation) + len(one.Argument) + len(one.Constraint) + len(one.Message) + 8*around
	}
	return size
}

// record returns a record cut to the measure. Nothing of the given one is changed.
func (m measure) record(r evidence.Record) evidence.Record {
	d := &r.Details
	for _, text := range []*string{
		&r.TaskID, &r.ActionType, &r.Intent.Operation, &r.Intent.Purpose, &d.Requester, &d.Principal, &d.Tenant, &d.TraceID, &d.Capability,
	} {
		*text = cutText(*text, m.text)
	}
	r.Intent.Details, d.Arguments = m.object(r.Intent.Details), m.object(d.Arguments)
	d.Granted, d.Exercised = m.texts(d.Granted), m.texts(d.Exercised)
	if d.Gate != nil {
		g := *d.Gate
		g.Origin = cutText(g.Origin, m.text)
		g.Required, g.Allowed, g.Missing = m.texts(g.Required), m.texts(g.Allowed), m.texts(g.Missing)
		d.Gate = &g
	}
	var reasons []evidence.Reason
	for n, one := range d.Reasons {
		if m.list > 0 && n == m.list {
			reasons = append(reasons, evidence.Reason{Code: d.Reasons[n].Code, Message: fmt.Sprintf("%d more reasons, this one the first of them", len(d.Reasons)-n)})
			break
		}
		one.Operation, one.Argument, one.Message = cutText(one.Operation, min(m.text, maxReason)), cutText(one.Argument, min(m.text, maxReason)), cutText(one.Message, min(m.text, maxReason))
		reasons = append(reasons, one)
	}
	d.Reasons = reasons
	return r
}

// texts cuts every text of a list, and the list. nil stays nil.
func (m measure) texts(list []string) []string {
	if list == nil {
		return nil
	}
	out := make([]string, 0, len(list))
	for n, text := range list {
		if m.list > 0 && n == m.list {
			return append(out, fmt.Sprintf("... (%d more, sha256 %x)", len(list)-n, sha256.Sum256([]byte(strings.Join(list, "\x00")))))
		}
		out = append(out, cutText(text, m.text))
	}
	return out
}

// object cuts the names and texts of a JSON object. One that is still too large, or
// nests, becomes its length and digest.
func (m measure) object(data []byte) []byte {
	if len(data) <= m.text {
		return data
	}
	whole := fmt.Sprintf("%d bytes, sha256 %x", len(data), sha256.Sum256(data))
	v, err := powerbox.ParseValue(data)
	members, ok := v.Members()
	if err != nil || !ok {
		return powerbox.Object(powerbox.Member{Name: "cut", Value: powerbox.String(whole)}).AppendJSON(nil)
	}
	var kept []powerbox.Member
	for n, one := range members {
		if m.list > 0 && n == m.list {
			kept = append(kept, powerbox.Member{Name: "cut", Value: powerbox.String(whole)})
			break
		}
		value := one.Value
		if text, ok := value.Text(); ok {
			value = powerbox.String(cutText(text, m.text))
		} else if nested := value.AppendJSON(nil); len(nested) > 4*m.text {
			value = powerbox.String(fmt.Sprintf("%d bytes, sha256 %x", len(nested), sha256.Sum256(nested)))
		}
		kept = append(kept, powerbox.Member{Name: cutText(one.Name, m.text), Value: value})
	}
	return powerbox.Object(kept...).AppendJSON(nil)
}

// cutText cuts a text that is longer than most bytes, and says its length and digest.
func cutText(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + fmt.Sprintf("... (%d bytes, sha256 %x)", len(s), sha256.Sum256([]byte(s)))
}
