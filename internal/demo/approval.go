package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/examples/quarterly"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/internal/plain"
)

// left is the one report that the demo's person leaves of a request.
const left = "Q2 Financial Summary"

// approval is act 3: policy leaves a request to a person, who narrows it on the page
// while the agent waits.
func (d *demo) approval(ctx context.Context) error {
	d.out.act("Act 3: an agent asks for too much, and a person decides")
	client := &holder.Client{
		Key: d.keys[""], HTTP: d.http, Now: d.p.Now, Random: rand.Reader,
		Session: func(context.Context, string) (string, error) { return userToken, nil },
	}
	agent, err := client.Discover(ctx, d.gatewayURL(quarterly.Documents))
	if err != nil {
		return err
	}
	query, err := powerbox.ParseValue([]byte(`{"collection":"reports"}`))
	if err != nil {
		return err
	}
	var answered error
	waiting, giveUp := context.WithCancel(ctx)
	defer giveUp()
	held, err := client.RequestAndWait(waiting, agent, holder.RequestParams{
		Grants: []string{"documents:read"}, Operations: []string{"retrieve", "follow"}, Purpose: "Compare the quarters", Query: query,
	}, func(p *holder.Pending) {
		d.out.say("  The user's agent asks to retrieve and follow every report. Policy leaves reports of other quarters to a person: the call waits.")
		if answered = d.narrows(ctx, p); answered != nil {
			giveUp() // or it would wait for an answer that does not come
		}
	})
	if err = errors.Join(answered, err); err != nil {
		return err
	}
	if len(held) != 1 || strings.Join(held[0].Operations, " ") != "retrieve" || names(held[0].Handles) != left {
		d.failures = append(d.failures, fmt.Sprintf("the waiting call was given %v", held))
		return nil
	}
	d.out.say("  The waiting call got:  %s", d.out.green(fmt.Sprintf("%s on %s, until %s", strings.Join(held[0].Operations, ", "), names(held[0].Handles), held[0].Expires.Local().Format("15:04:05"))))
	args := powerbox.Object(powerbox.Member{Name: "resourceHandle", Value: powerbox.String(held[0].Handles[0].Handle)})
	if _, err := client.Invoke(ctx, agent, held[0], "retrieve_document", args); err != nil {
		d.failures = append(d.failures, "what the person left could not be read: "+err.Error())
	}
	if _, err := client.Invoke(ctx, agent, held[0], "follow_document", args); err == nil {
		d.failures = append(d.failures, "what the person took away went on")
	}
	d.out.say("  The record names the question, the answer and the person.")
	return nil
}

// leaveWaiting makes requests that wait for the demo's person in the console.
func (d *demo) leaveWaiting(ctx context.Context) error {
	client := &holder.Client{
		Key: d.keys[""], HTTP: d.http, Now: d.p.Now, Random: rand.Reader,
		Session: func(context.Context, string) (string, error) { return userToken, nil },
	}
	agent, err := client.Discover(ctx, d.gatewayURL(quarterly.Documents))
	if err != nil {
		return err
	}
	for _, ask := range []struct{ query, purpose, operation string }{
		{`{"collection":"reports"}`, "Write the annual report", "retrieve"},
		{`{"collection":"reports","filter":{"quarter":"2025-Q2"}}`, "Tell me when the second quarter changes", "follow"},
	} {
		query, err := powerbox.ParseValue([]byte(ask.query))
		if err != nil {
			return err
		}
		_, err = client.Request(ctx, agent, holder.RequestParams{Grants: []string{"documents:read"}, Operations: []string{ask.operation}, Purpose: ask.purpose, Query: query})
		if waits := new(holder.Pending); !errors.As(err, &waits) {
			return errors.Join(errors.New("a request that a person must answer does not wait"), err)
		}
	}
	return nil
}

// The parts of the page that an answer repeats.
var (
	seenOnPage = regexp.MustCompile(`name="seen" value="([^"]+)"`)
	onPage     = regexp.MustCompile(`name="on\.0" value="(\d+)" checked[^>]*> ([^<]+)</label>`)
)

// narrows answers a request as a person's browser would: log in, open the page,
// untick, approve.
func (d *demo) narrows(ctx context.Context, p *holder.Pending) error {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	browser := &http.Client{Jar: jar, Timeout: d.http.Timeout}
	if _, err := d.submit(ctx, browser, d.base+"/login", url.Values{"user": {"alice"}, "next": {"/approve"}}); err != nil {
		return err
	}
	page, err := d.submit(ctx, browser, p.ApprovalURL, nil)
	if err != nil {
		return err
	}
	seen, on := seenOnPage.FindStringSubmatch(page), onPage.FindAllStringSubmatch(page, -1)
	i := slices.IndexFunc(on, func(m []string) bool { return m[2] == left })
	if seen == nil || i < 0 {
		return errors.New("the page does not show what is asked for")
	}
	d.out.say("  The person at %s sees the caller, the user, the purpose, %s and %s, and approves only one.", p.ApprovalURL, plain.Count(2, "operation"), plain.Count(len(on), "report"))
	_, err = d.submit(ctx, browser, p.ApprovalURL, url.Values{"answer": {"approve"}, "seen": {seen[1]}, "op.0": {"retrieve"}, "on.0": {on[i][1]}})
	return err
}

// submit posts a form, or opens a page where there is none.
func (d *demo) submit(ctx context.Context, browser *http.Client, address string, form url.Values) (string, error) {
	method, body := http.MethodGet, io.Reader(nil)
	if form != nil {
		method, body = http.MethodPost, strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return "", err
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := browser.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }() // it was read
	page, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: HTTP status %s", method, address, response.Status)
	}
	return string(page), err
}
