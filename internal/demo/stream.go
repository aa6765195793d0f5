package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/examples/quarterly"
	"github.com/powerbox-project/powerbox/holder"
)

const demoFollow = "documents/documents:read/follow"

// event is one event of a stream, or its end, and when it came.
type event struct {
	err error
	at  time.Time
}

// stream is act 2: a stream that is under way when an operator freezes the
// agent, and how long the stream lasts.
func (d *demo) stream(ctx context.Context) error {
	d.out.act("Act 2: a live stream, and an operator's stop")
	own, err := d.toFollow(ctx)
	if err != nil {
		return err
	}
	following, stop := context.WithCancel(ctx)
	defer stop()
	events := d.follow(following, own)
	for range 10 {
		if e := <-events; e.err != nil {
			return fmt.Errorf("the stream ended before it was stopped: %w", e.err)
		}
	}
	d.out.say("  A report is followed as it is written; 10 events have come, one every 20 ms.")
	d.out.say("  The operator:  powerbox freeze agent:documents --reason \"odd calls\"")
	began := d.p.Now()
	if _, err := d.instance.Issuer.Freeze(ctx, "operator", "agent:"+quarterly.Documents, "odd calls"); err != nil {
		return err
	}
	frozen := d.p.Now()
	late, last := 0, event{}
	for e := range events {
		last = e
		if e.err == nil && e.at.After(frozen) {
			late++
		}
	}
	code, message := refusalOf(last.err)
	if code != "frozen" || last.at.Sub(frozen) > time.Second { // How long the disk took is not the stream's.
		d.failures = append(d.failures, fmt.Sprintf("the stream ended with %v, %v after the freeze was durable", last.err, last.at.Sub(frozen)))
	}
	d.out.say("  The stream:    %s, %s after the command (%s after it was durable); events after that: %d", d.out.green(code),
		last.at.Sub(began).Round(10*time.Microsecond), max(0, last.at.Sub(frozen)).Round(10*time.Microsecond), late)
	d.out.say("      %s", shorten(message, 150))
	d.attempt(ctx, try{"the same report again, while the agent is frozen", []string{"frozen"}, func(ctx context.Context) error {
		return (<-d.follow(ctx, own)).err
	}})
	if _, err := d.instance.Issuer.Thaw(ctx, "operator", "agent:"+quarterly.Documents, "explained"); err != nil {
		return err
	}
	if e := <-d.follow(following, own); e.err != nil {
		d.failures = append(d.failures, "after the thaw: "+e.err.Error())
	}
	d.out.say("  After powerbox thaw it is followed again.")
	return nil
}

// toFollow asks for a capability to follow the reports of one quarter.
func (d *demo) toFollow(ctx context.Context) (holder.Capability, error) {
	client := &holder.Client{
		Key: d.keys[""], HTTP: d.http, Now: d.p.Now, Random: rand.Reader,
		Session: func(context.Context, string) (string, error) { return userToken, nil },
	}
	agent, err := client.Discover(ctx, d.gatewayURL(quarterly.Documents))
	if err != nil {
		return holder.Capability{}, err
	}
	query, err := powerbox.ParseValue([]byte(`{"collection":"reports","filter":{"quarter":"2025-Q1"}}`))
	if err != nil {
		return holder.Capability{}, err
	}
	got, err := client.Request(ctx, agent, holder.RequestParams{
		Grants: []string{"documents:read"}, Operations: []string{"follow"}, Purpose: "Follow the quarterly report", Query: query,
	})
	if err != nil {
		return holder.Capability{}, err
	}
	if len(got) == 0 || len(got[0].Handles) == 0 {
		return holder.Capability{}, errors.New("nothing to follow was granted")
	}
	return got[0], nil
}

// follow streams a report through a2a-go's client. The channel ends with the
// stream.
func (d *demo) follow(ctx context.Context, own holder.Capability) <-chan event {
	out := make(chan event, 1)
	go func() {
		defer close(out)
		args := map[string]any{"resourceHandle": own.Handles[0].Handle}
		client, err := d.client(ctx, quarterly.Documents, &forger{chain: own.Chain, key: d.keys[""], operation: demoFollow, arguments: args})
		if err != nil {
			out <- event{err, d.p.Now()}
			return
		}
		defer func() { _ = client.Destroy() }()
		part := a2a.NewDataPart(map[string]any{"skill": "follow_document", "arguments": args})
		for _, err := range client.SendStreamingMessage(ctx, &a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, part)}) {
			select {
			case out <- event{err, d.p.Now()}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}
