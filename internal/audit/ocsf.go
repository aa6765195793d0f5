package audit

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/powerbox-project/powerbox/evidence"
)

// ocsfVersion is the version of OCSF that the events have the members of.
const ocsfVersion = "1.3.0"

// The numbers of OCSF 1.3.0: the class API Activity with the profile Security
// Control.
const (
	ocsfApplication = 6
	ocsfAPIActivity = 6003
	ocsfOther       = 99
)

// OCSFRecord is an event of API Activity. Members of OCSF have its names; members
// without a name there stand under unmapped.
type OCSFRecord struct {
	Activity     int          `json:"activity_id"`
	ActivityName string       `json:"activity_name"`
	Category     int          `json:"category_uid"`
	Class        int          `json:"class_uid"`
	Type         int          `json:"type_uid"`
	Time         int64        `json:"time"` // milliseconds since 1970
	Severity     int          `json:"severity_id"`
	Status       int          `json:"status_id"`
	StatusDetail string       `json:"status_detail,omitempty"`
	Action       int          `json:"action_id"`
	Disposition  int          `json:"disposition_id"`
	Actor        ocsfActor    `json:"actor"`
	API          ocsfAPI      `json:"api"`
	Source       ocsfEndpoint `json:"src_endpoint"`
	Destination  ocsfEndpoint `json:"dst_endpoint"`
	Metadata     ocsfMetadata `json:"metadata"`
	Unmapped     ocsfUnmapped `json:"unmapped"`
	RawData      string       `json:"raw_data"` // the record as it was hashed
}

type ocsfActor struct {
	User ocsfUser `json:"user"`
	App  string   `json:"app_uid,omitempty"`
}

type ocsfUser struct {
	ID string `json:"uid"`
}

type ocsfAPI struct {
	Operation string      `json:"operation"`
	Service   ocsfService `json:"service"`
}

type ocsfService struct {
	Name string `json:"name"`
}

type ocsfEndpoint struct {
	ID string `json:"uid"`
}

type ocsfMetadata struct {
	Version     string      `json:"version"`
	Product     ocsfProduct `json:"product"`
	Profiles    []string    `json:"profiles"`
	ID          string      `json:"uid"`
	Sequence    int64       `json:"sequence"`
	LogName     string      `json:"log_name"`
	Correlation string      `json:"correlation_uid,omitempty"`
}

type ocsfProduct struct {
	Name   string `json:"name"`
	Vendor string `json:"vendor_name"`
}

type ocsfUnmapped struct {
	Decision   evidence.Decision      `json:"decision"`
	Outcome    evidence.OutcomeStatus `json:"outcome_status,omitempty"`
	OutcomeOf  string                 `json:"outcome_of,omitempty"`
	Task       string                 `json:"task_id,omitempty"`
	Capability string                 `json:"capability,omitempty"`
	Mode       string                 `json:"mode,omitempty"`
	RecordHash string                 `json:"record_hash"`
	FreeText   bool                   `json:"names_no_skill,omitempty"`
}

// OCSFEvent is a record as an event of API Activity.
func OCSFEvent(sealed evidence.Sealed) OCSFRecord {
	r := sealed.Record()
	d := r.Details
	event := OCSFRecord{
		Activity: ocsfOther, ActivityName: r.ActionType, Category: ocsfApplication, Class: ocsfAPIActivity,
		Type: ocsfAPIActivity*100 + ocsfOther, Time: r.Time.UnixMilli(), Status: ocsfStatus(r), StatusDetail: codes(d.Reasons),
		Actor:  ocsfActor{User: ocsfUser{ID: d.Principal}, App: d.Requester},
		API:    ocsfAPI{Operation: SubjectOf(r), Service: ocsfService{Name: r.AgentID}},
		Source: ocsfEndpoint{ID: d.Requester}, Destination: ocsfEndpoint{ID: r.AgentID},
		Metadata: ocsfMetadata{
			Version: ocsfVersion, Product: ocsfProduct{Name: "Powerbox", Vendor: "Powerbox"}, Profiles: []string{"security_control"},
			ID: r.ID, Sequence: d.Sequence, LogName: d.ChainID.String(), Correlation: d.TraceID,
		},
		Unmapped: ocsfUnmapped{
			Decision: r.Decision, Outcome: r.OutcomeStatus, OutcomeOf: d.OutcomeOf, Task: r.TaskID, Capability: d.Capability,
			Mode: d.Mode, RecordHash: sealed.Hash().String(), FreeText: IsFreeText(r),
		},
		RawData: string(sealed.Bytes()),
	}
	event.Action, event.Disposition, event.Severity = ocsfDecision(r.Decision)
	return event
}

// ocsfDecision gives action, disposition and severity: allowed (1, 1) and
// informational, denied (2), blocked (2) and medium, or observed (3), logged (17)
// and informational.
func ocsfDecision(d evidence.Decision) (action, disposition, severity int) {
	switch d {
	case evidence.Allow:
		return 1, 1, 1
	case evidence.Deny:
		return 2, 2, 3
	case evidence.Abstain:
	}
	return 3, 17, 1
}

// ocsfStatus is success (1), failure (2), other (99), or unknown (0), as of an
// action whose outcome is not told in this record.
func ocsfStatus(r evidence.Record) int {
	switch {
	case r.OutcomeStatus == evidence.Achieved:
		return 1
	case r.OutcomeStatus == evidence.Failed, r.Decision == evidence.Deny:
		return 2
	case r.OutcomeStatus == evidence.Partial:
		return ocsfOther
	}
	return 0
}

func codes(reasons []evidence.Reason) string {
	var out []string
	for _, reason := range reasons {
		out = append(out, reason.Code)
	}
	return strings.Join(out, ", ")
}

// MarshalLine writes JSON on one line, with texts as they are.
func MarshalLine(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}
