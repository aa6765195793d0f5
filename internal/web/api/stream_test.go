package api

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/people"
)

// followed is a server over a log, in which every fourth record is an outcome and every
// other one a denial.
func followed(t *testing.T, records int) (url string, l *Live, end func()) {
	t.Helper()
	log, head := &logOf{}, evidence.Genesis(evidence.ChainID{1})
	for n := range records {
		r := evidence.Record{Decision: evidence.Allow, Time: time.Date(2026, 5, 4, 12, 0, n, 0, time.UTC), Intent: evidence.Intent{Purpose: "WORDS"}}
		switch {
		case n%4 == 3:
			r.OutcomeStatus, r.Details.OutcomeOf = evidence.Achieved, fmt.Sprint("r", n-1)
		case n%2 == 1:
			r.Decision, r.Details.Requester, r.Details.Reasons = evidence.Deny, "desk", []evidence.Reason{{Code: "frozen"}}
		}
		head = log.add(t, head, r)
	}
	done := make(chan struct{})
	l = &Live{
		Log: log, Done: done,
		Head: func(context.Context) ([]byte, error) {
			return fmt.Appendf(nil, "log\n%d\nAAAA\n\n\u2014 log x\n", records), nil
		},
		Place: func(_ context.Context, id string) (place int64, err error) {
			if n, _ := fmt.Sscanf(id, "r%d", &place); n != 1 {
				err = issuer.ErrNotFound
			}
			return place, err
		},
	}
	a := &Admin{Live: l, Log: slog.New(slog.DiscardHandler)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.stream(w, called(r, caller{name: tokenHolder, rights: people.AllRights(), needs: people.Evidence}))
	}))
	t.Cleanup(server.Close)
	return server.URL, l, func() { close(done) }
}

// streamed are the lines of a stream until one begins with a text, or until its end.
func streamed(t *testing.T, url, last, until string) (lines []string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	for in := bufio.NewScanner(answer.Body); in.Scan(); {
		if lines = append(lines, in.Text()); until != "" && strings.HasPrefix(in.Text(), until) {
			return lines
		}
	}
	return lines
}

// TestStreamsFollowTheLog begins behind a record, has decisions in their short form and
// the selected ones alone, and leaves out those that are too far back.
func TestStreamsFollowTheLog(t *testing.T) {
	url, _, _ := followed(t, 8)
	all := strings.Join(streamed(t, url+"?after=r0", "", "id: r7"), "\n")
	if strings.Count(all, "event: record") != 5 || !strings.Contains(all, `"id":"r1"`) || strings.Contains(all, `"id":"r0"`) || strings.Contains(all, "WORDS") {
		t.Errorf("behind the first of eight records, two of them outcomes:\n%s", all)
	}
	if again := strings.Join(streamed(t, url+"?after=r0", "r5", "id: r7"), "\n"); strings.Count(again, "event: record") != 1 || !strings.Contains(again, `"id":"r6"`) {
		t.Errorf("behind Last-Event-ID:\n%s", again)
	}
	if some := strings.Join(streamed(t, url+"?after=r0&decision=DENY&reason=frozen&requester=desk&agent=mail&operation=mail:send/send", "", "id: r7"), "\n"); strings.Count(some, "event: record") != 2 || !strings.Contains(some, `"reason":"frozen"`) {
		t.Errorf("the denials:\n%s", some)
	}
	if said := strings.Join(streamed(t, url+"?after=nothing", "", ""), "\n"); !strings.Contains(said, "names no record") {
		t.Errorf("an unknown place is answered with %s", said)
	}
	url, _, _ = followed(t, liveBack+10)
	if old := streamed(t, url+"?after=r0", "", fmt.Sprint("id: r", liveBack+9)); old[1] != "event: skipped" || old[2] != "data: 9" || !strings.HasPrefix(old[4], "id: r10") {
		t.Errorf("a stream that begins too far back begins with %q", old[:8])
	}
}

// TestStreamsAreBounded refuses one stream too many of an operator, and of all; streams
// end with the server, and give back their places.
func TestStreamsAreBounded(t *testing.T) {
	url, l, end := followed(t, 4)
	for range maxLiveEach {
		if err := l.begin(tokenHolder); err != nil {
			t.Fatal(err)
		}
	}
	if said := strings.Join(streamed(t, url, "", ""), "\n"); !strings.Contains(said, "close one") {
		t.Errorf("one stream of an operator too many: %s", said)
	}
	l.end(tokenHolder)
	for n := range maxLive - maxLiveEach + 1 {
		if err := l.begin(fmt.Sprint("person-", n)); err != nil {
			t.Fatal(err)
		}
	}
	if said := strings.Join(streamed(t, url, "", ""), "\n"); !strings.Contains(said, "too many streams") {
		t.Errorf("one stream too many: %s", said)
	}
	l.end("person-0")
	end()
	if lines := streamed(t, url+"?after=r2", "", ""); lines[0] != "retry: 1000" {
		t.Errorf("a stream of a server that ends: %q", lines)
	}
	if l.end(tokenHolder); l.total != maxLive-2 || l.followed[tokenHolder] != maxLiveEach-2 {
		t.Errorf("%d streams are counted, %d of them of the operator", l.total, l.followed[tokenHolder])
	}
}

// TestStreamsOfferGrantsToThoseWhoMayGive marks a denial as one that a grant can follow for
// readers alone who may give at its agent.
func TestStreamsOfferGrantsToThoseWhoMayGive(t *testing.T) {
	r := evidence.Record{ID: "r1", AgentID: "mail", ActionType: "a2a.message.send", Decision: evidence.Deny, Intent: evidence.Intent{Operation: "mail/send"}}
	r.Details.Requester, r.Details.Principal, r.Details.Attempt, r.Details.Gate = "desk", "user:alice", "invocation", &evidence.Gate{}
	r.Details.Reasons = []evidence.Reason{{Code: "capability_required"}}
	for agent, offered := range map[string]bool{"mail": true, "files": false} {
		s := liveStream{sees: func(string) bool { return true }, steers: func(at string) bool { return at == agent }}
		if text := string(s.append(nil, r)); !strings.Contains(text, `"id":"r1"`) || strings.Contains(text, `"grantable":true`) != offered {
			t.Errorf("to an operator of %s:\n%s", agent, text)
		}
	}
}
