package audit

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/powerbox-project/powerbox/evidence"
)

// CEFEvent is a record as a line of the Common Event Format, for a SIEM. Product is the version
// of the program.
func CEFEvent(sealed evidence.Sealed, product string) string {
	r := sealed.Record()
	d := r.Details
	var out strings.Builder
	out.WriteString("CEF:0")
	for _, field := range []string{"Powerbox", "Powerbox", product, r.ActionType, cefName(r), strconv.Itoa(cefSeverity(r.Decision))} {
		out.WriteByte('|')
		out.WriteString(cefHeader.Replace(field))
	}
	out.WriteByte('|')
	first := true
	add := func(key, value string) {
		if value == "" {
			return
		}
		if !first {
			out.WriteByte(' ')
		}
		first = false
		out.WriteString(key + "=" + cefValue(value))
	}
	add("rt", strconv.FormatInt(r.Time.UnixMilli(), 10))
	add("externalId", r.ID)
	add("act", string(r.Decision))
	add("outcome", string(r.OutcomeStatus))
	add("reason", codes(d.Reasons))
	add("suid", d.Principal)
	add("sourceServiceName", d.Requester)
	add("destinationServiceName", r.AgentID)
	add("app", SubjectOf(r))
	for n, custom := range []struct{ label, value string }{
		{"capability", d.Capability}, {"task", r.TaskID}, {"mode", d.Mode}, {"chain", d.ChainID.String()}, {"recordHash", sealed.Hash().String()}, {"traceId", d.TraceID},
	} {
		if custom.value != "" {
			key := "cs" + strconv.Itoa(n+1)
			add(key, custom.value)
			add(key+"Label", custom.label)
		}
	}
	add("cn1", strconv.FormatInt(d.Sequence, 10))
	add("cn1Label", "sequence")
	return out.String()
}

// cefName is the event in words of ours.
func cefName(r evidence.Record) string {
	switch r.Decision {
	case evidence.Allow:
		return "Allowed"
	case evidence.Deny:
		return "Denied"
	case evidence.Abstain:
	}
	return "Observed"
}

// cefSeverity is low (3) for an allowed or observed call, and medium (6) for a denial.
func cefSeverity(d evidence.Decision) int {
	if d == evidence.Deny {
		return 6
	}
	return 3
}

// A line break in a header, or one that a value holds unescaped, would begin an event that
// was never recorded.
var (
	cefHeader  = strings.NewReplacer(`\`, `\\`, `|`, `\|`, "\r", " ", "\n", " ")
	cefEscaped = strings.NewReplacer(`\`, `\\`, `=`, `\=`, "\r", `\r`, "\n", `\n`)
)

// cefValue escapes a value. Other control characters, the line breaks of Unicode, and marks that
// turn the direction of writing become spaces.
func cefValue(value string) string {
	return cefEscaped.Replace(strings.Map(func(c rune) rune {
		switch {
		case c == '\r' || c == '\n':
			return c
		case !unicode.IsPrint(c):
			return ' '
		}
		return c
	}, value))
}
