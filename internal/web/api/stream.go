package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/audit"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/people"
)

const (
	// liveEvery is how often the log is looked at for a stream.
	liveEvery = 500 * time.Millisecond
	// liveBeat is after how many looks without a record a stream says that it is there.
	liveBeat = 4
	// liveFull is a number of records behind which more are there without a wait.
	liveFull = 100
	// liveBack bounds how far back a stream begins, in records.
	liveBack = 1000
	// maxLive bounds the streams at once, maxLiveEach those of one operator.
	maxLive     = 64
	maxLiveEach = 8
)

// LiveRecord is a record in the short form of the stream. Words of agents are not in it.
type LiveRecord struct {
	ID        string            `json:"id"`
	Time      time.Time         `json:"time"`
	Agent     string            `json:"agent"`
	Requester string            `json:"requester,omitempty"`
	Subject   string            `json:"subject"` // the operation, in words for operators
	Action    string            `json:"action"`
	Decision  evidence.Decision `json:"decision"`
	Waits     bool              `json:"waits,omitempty"`  // for a person
	Reason    string            `json:"reason,omitempty"` // code of the first
	// Grantable says that a grant by the reader can follow the denial.
	Grantable bool `json:"grantable,omitempty"`
}

// Live follows the log for those who watch it. Its methods can be called by many
// goroutines.
type Live struct {
	Log   RecordLog
	Place func(ctx context.Context, id string) (int64, error) // of a record
	Head  func(ctx context.Context) ([]byte, error)           // the signed checkpoint
	Done  <-chan struct{}                                     // ends the streams

	mu       sync.Mutex // guards the fields below
	total    int
	followed map[string]int // streams, by operator
}

// begin takes a place for a stream.
func (l *Live) begin(who string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.followed[who] >= maxLiveEach:
		return status{http.StatusTooManyRequests, "you follow " + strconv.Itoa(maxLiveEach) + " streams already; close one"}
	case l.total >= maxLive:
		return status{http.StatusTooManyRequests, "too many streams are open; read GET /v1/records instead"}
	}
	if l.followed == nil {
		l.followed = map[string]int{}
	}
	l.total++
	l.followed[who]++
	return nil
}

func (l *Live) end(who string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total--
	if l.followed[who]--; l.followed[who] <= 0 {
		delete(l.followed, who)
	}
}

// stream follows the log by server-sent events: an event "record" with a [LiveRecord] for
// each decision that the query selects by agent, requester, operation, decision and
// reason. It begins behind the record that Last-Event-ID or after names, and otherwise at
// the end of the log. Where that is more than 1,000 records back it leaves out the oldest,
// and says how many with an event "skipped".
func (a *Admin) stream(w http.ResponseWriter, r *http.Request) {
	q, after := liveQuery(r.URL.Query())
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		after = last
	}
	var place, skipped int64
	after, err := a.recordAt(r, after)
	if err == nil {
		place, skipped, err = a.Live.from(r.Context(), after)
	}
	if errors.Is(err, issuer.ErrNotFound) {
		err = status{http.StatusBadRequest, "after, or Last-Event-ID, names no record"}
	}
	who := operator(r)
	if err == nil {
		err = a.Live.begin(who)
	}
	if err != nil {
		reply(w, r, a.Log, nil, err)
		return
	}
	defer a.Live.end(who)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	rights := callerOf(r).rights
	s := liveStream{
		Live: a.Live, place: place, query: q, w: w, out: http.NewResponseController(w), all: everywhere(r),
		still: func() bool { return a.still(r) },
		sees:  func(agent string) bool { return at(r, agent) }, steers: func(agent string) bool { return rights.MayAt(people.Steer, agent) },
	}
	head := "retry: 1000\n"
	if skipped > 0 {
		head += "event: skipped\ndata: " + strconv.FormatInt(skipped, 10) + "\n"
	}
	if _, err := io.WriteString(w, head+"\n"); err != nil || s.out.Flush() != nil {
		return
	}
	if err := s.run(r.Context()); err != nil && r.Context().Err() == nil {
		a.Log.ErrorContext(r.Context(), "a stream of records ended", slog.Any("error", err))
	}
}

// liveQuery reads the selection of a stream, which [checkQuery] admitted.
func liveQuery(v url.Values) (q audit.Query, after string) {
	q = audit.Query{Agent: v.Get("agent"), Requester: v.Get("requester"), Operation: v.Get("operation"), Decision: v.Get("decision"), Reason: v.Get("reason")}
	return q, v.Get("after")
}

// from is the place at which a stream begins, and how many records it leaves out.
func (l *Live) from(ctx context.Context, after string) (place, skipped int64, err error) {
	head, err := logHead(ctx, l.Head)
	if err != nil || after == "" {
		return head.Size, 0, err
	}
	place, err = l.Place(ctx, after)
	if err != nil {
		return 0, 0, err
	}
	begins, err := l.Log.Begins(ctx)
	begin := max(place+1, begins, head.Size-liveBack)
	return begin, begin - place - 1, err
}

// liveStream is one stream.
type liveStream struct {
	*Live

	place  int64
	query  audit.Query
	still  func() bool // the caller may have the stream until now
	sees   func(agent string) bool
	steers func(agent string) bool
	all    bool // sees every agent
	w      http.ResponseWriter
	out    *http.ResponseController
}

// run follows the log until the client or the server ends.
func (s *liveStream) run(ctx context.Context) error {
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	ready := make(chan time.Time)
	close(ready)
	for quiet := 0; ; {
		sealed, err := s.Log.From(ctx, s.place)
		if err != nil || !s.still() {
			return err
		}
		var text []byte
		for _, one := range sealed {
			s.place++
			text = s.append(text, one.Record())
		}
		if len(sealed) > 0 && s.all { // after a break these are not read again
			quiet = 0
			text = fmt.Appendf(text, "id: %s\n\n", sealed[len(sealed)-1].Record().ID)
		} else if quiet++; quiet%liveBeat == 0 {
			text = append(text, ":\n\n"...) // notices a closed connection
		}
		if len(text) > 0 {
			if _, err := s.w.Write(text); err != nil || s.out.Flush() != nil {
				return nil //nolint:nilerr // the client has gone
			}
		}
		wait := tick.C
		if len(sealed) >= liveFull {
			wait = ready
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.Done:
			return nil
		case <-wait:
		}
	}
}

// append adds the event of a record, unless it decides nothing or is not selected.
func (s *liveStream) append(text []byte, r evidence.Record) []byte {
	if r.Details.OutcomeOf != "" || !s.query.Selects(r) || !s.sees(r.AgentID) {
		return text
	}
	short := liveRecord(r)
	short.Grantable = short.Grantable && s.steers(r.AgentID)
	data, err := json.Marshal(short)
	if err != nil { // it has texts and a time alone
		return text
	}
	return fmt.Appendf(text, "id: %s\nevent: record\ndata: %s\n\n", r.ID, data)
}

func liveRecord(r evidence.Record) LiveRecord {
	l := LiveRecord{
		ID: r.ID, Time: r.Time.UTC(), Agent: r.AgentID, Requester: r.Details.Requester, Subject: audit.WhatOf(r), Action: r.ActionType,
		Decision: r.Decision, Waits: audit.Waits(r.Decision, r.Details.Reasons), Grantable: Givable(r) == "",
	}
	if len(r.Details.Reasons) > 0 {
		l.Reason = r.Details.Reasons[0].Code
	}
	return l
}
