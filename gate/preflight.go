package gate

import (
	"slices"
	"time"

	"github.com/powerbox-project/powerbox"
)

// Handoff is a delegation that is about to happen: From hands a task that needs
// Required to To. Nothing of it comes from what an agent says of itself.
type Handoff struct {
	From, To string               // names of agents
	Required []powerbox.Operation // what the task needs; none is a violation, since unknown needs are refused (GATE-5)
	Caps     powerbox.Authority   // Caps(To): what its skills map to
	Scope    powerbox.Authority   // Scope(From) at To, as it was configured
}

// Failure says that a delegation must not proceed. It is a
// [powerbox.ErrDenied]. Nothing is to be forwarded; the task of the agent that
// would have delegated becomes TASK_STATE_FAILED with its text, or, where policy
// escalates, INPUT_REQUIRED or AUTH_REQUIRED (GATE-3).
type Failure struct {
	From     string   `json:"from"`
	To       string   `json:"to"`
	Required []string `json:"required"`
	Allowed  []string `json:"allowed"` // of the required ones
	Missing  []string `json:"missing"` // the rest, sorted
}

// Error is the status text of GATE-3: the exact missing set, sorted.
func (f *Failure) Error() string {
	return powerbox.Violation(f.Missing)
}

// Unwrap returns [powerbox.ErrDenied].
func (*Failure) Unwrap() error { return powerbox.ErrDenied }

// Preflight holds a delegation against Effective = Caps(To) meet Scope(From)
// before anything is sent (GATE-1). It returns nil where the task's requirements
// are within it, and the failure otherwise; the same declarations have the same
// answer (GATE-11).
func Preflight(h Handoff, now time.Time) *Failure {
	effective := h.Caps.Meet(h.Scope)
	f := &Failure{From: h.From, To: h.To, Required: []string{}, Allowed: []string{}, Missing: []string{}}
	for _, op := range h.Required {
		f.Required = append(f.Required, op.String())
		if powerbox.Decide(powerbox.Admission(op), effective, now).Allowed {
			f.Allowed = append(f.Allowed, op.String())
		} else {
			f.Missing = append(f.Missing, op.String())
		}
	}
	for _, list := range []*[]string{&f.Required, &f.Allowed, &f.Missing} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	if len(h.Required) > 0 && len(f.Missing) == 0 {
		return nil
	}
	return f
}
