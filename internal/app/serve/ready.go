package serve

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// Bounds of readiness.
const (
	// readyEvery is how often a dependency is tried at the most, however often a balancer asks.
	readyEvery = 500 * time.Millisecond
	// readySteady is for how long a dependency must fail, or work again, before the answer
	// changes.
	readySteady = time.Second
	// TryTime bounds one try.
	TryTime = 5 * time.Second
)

// Dependency is a resource that a process cannot serve without. A readiness request
// tries it by a write that is durable as those of calls are, in the same queue.
type Dependency struct {
	Name, Down string // the name, and the message when it fails
	Try        func(ctx context.Context) error
	Now        func() time.Time

	mu      sync.Mutex    // guards the fields below
	trying  chan struct{} // closed when the try under way has ended; nil for none
	began   time.Time     // when it began
	tried   time.Time     // when the last one ended
	bad     time.Time     // since when it fails; zero while it works
	good    time.Time     // since when it works; zero while it fails
	isDown  bool
	failing error
}

// DegradedBy is one line of the answer.
type DegradedBy struct {
	Dependency string `json:"dependency"`
	Reason     string `json:"reason"`
	Since      string `json:"since,omitempty"`
}

// Look tries the dependency, where that is due, and returns why it is down, nil where it is
// not.
func (d *Dependency) Look(ctx context.Context) *DegradedBy {
	d.mu.Lock()
	if d.trying == nil && d.Now().Sub(d.tried) >= readyEvery {
		d.trying, d.began = make(chan struct{}), d.Now()
		go d.once(context.WithoutCancel(ctx), d.trying)
	}
	trying := d.trying
	d.mu.Unlock()
	if trying != nil {
		wait := time.NewTimer(readySteady)
		defer wait.Stop()
		select {
		case <-trying:
		case <-wait.C:
		case <-ctx.Done():
		}
	}
	return d.verdict(d.Now())
}

func (d *Dependency) once(ctx context.Context, done chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, TryTime)
	defer cancel()
	err := d.Try(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.note(err, d.Now())
	d.trying = nil
	close(done)
}

// note takes over the result of a try. One that failed has failed since it began.
func (d *Dependency) note(err error, now time.Time) {
	d.tried, d.failing = now, err
	switch {
	case err != nil && d.bad.IsZero():
		d.bad, d.good = d.began, time.Time{}
	case err == nil && d.good.IsZero():
		d.good, d.bad = now, time.Time{}
	}
}

// verdict says why the dependency is down, nil where it is not. A try that is under way for
// longer than readySteady is a failure.
func (d *Dependency) verdict(now time.Time) *DegradedBy {
	d.mu.Lock()
	defer d.mu.Unlock()
	bad := d.bad
	if d.trying != nil && now.Sub(d.began) >= readySteady {
		if bad.IsZero() {
			bad = d.began
		}
	}
	switch {
	case !bad.IsZero():
		d.isDown = d.isDown || now.Sub(bad) >= readySteady
	case d.isDown && !d.good.IsZero() && now.Sub(d.good) >= readySteady:
		d.isDown = false
	}
	if !d.isDown {
		return nil
	}
	since := bad
	why := d.Down
	if since.IsZero() {
		since, why = d.good, "it works again, and is watched for a second"
	}
	return &DegradedBy{d.Name, why, since.UTC().Format(time.RFC3339)}
}

// Readiness is the answer of /readyz.
type Readiness struct {
	Status  string       `json:"status"` // ready, degraded or unready
	Reasons []DegradedBy `json:"reasons,omitempty"`
}

// Unready says that the process cannot serve calls.
func (r *Readiness) Unready(dependency, reason string) {
	r.Status = "unready"
	r.Reasons = append(r.Reasons, DegradedBy{Dependency: dependency, Reason: reason})
}

// By takes over that a dependency is down.
func (r *Readiness) By(d *DegradedBy) {
	if d != nil {
		r.Status = "unready"
		r.Reasons = append(r.Reasons, *d)
	}
}

// Write answers: 503 takes the process out of a balancer.
func (r *Readiness) Write(w http.ResponseWriter) {
	status := http.StatusOK
	switch r.Status {
	case "":
		r.Status = "ready"
	case "unready":
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(r) // the balancer may have gone
}
