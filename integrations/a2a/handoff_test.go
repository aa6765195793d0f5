package powerboxa2a_test

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/gate"
	powerboxa2a "github.com/powerbox-project/powerbox/integrations/a2a"
)

// executor is an agent in one function.
type executor func(ctx context.Context, x *a2asrv.ExecutorContext) a2a.Event

func (e executor) Execute(ctx context.Context, x *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		if yield(a2a.NewSubmittedTask(x, x.Message), nil) {
			yield(e(ctx, x), nil)
		}
	}
}

func (e executor) Cancel(context.Context, *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(func(a2a.Event, error) bool) {}
}

// stockServer serves a stock agent, and returns its card.
func stockServer(t *testing.T, name string, e executor, skills ...string) *a2a.AgentCard {
	t.Helper()
	srv := httptest.NewServer(a2asrv.NewJSONRPCHandler(a2asrv.NewHandler(e)))
	t.Cleanup(srv.Close)
	card := &a2a.AgentCard{
		Name: name, Description: name, Version: "1", DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		SupportedInterfaces: []*a2a.AgentInterface{a2a.NewAgentInterface(srv.URL, a2a.TransportProtocolJSONRPC)},
	}
	for _, s := range skills {
		card.Skills = append(card.Skills, a2a.AgentSkill{ID: s, Name: s, Description: s, Tags: []string{"t"}})
	}
	return card
}

func op(t *testing.T, name string) powerbox.Operation {
	t.Helper()
	o, err := powerbox.ParseOperation(name)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestGATE6_BeforeTheHandoff has a stock agent hand on to another one through the
// interceptor: a request outside its scope, or not on the other's card, is not
// sent. The agent's own task fails and names exactly the missing permissions.
// Every attempt is on record.
func TestGATE6_BeforeTheHandoff(t *testing.T) {
	reached := 0
	mailer := stockServer(t, "mailer", func(_ context.Context, x *a2asrv.ExecutorContext) a2a.Event {
		reached++
		return a2a.NewStatusUpdateEvent(x, a2a.TaskStateCompleted, nil)
	}, "send", "read", "purge")
	scope, err := powerbox.NewAuthority(powerbox.Window{Until: now().Add(time.Hour)}, 0,
		powerbox.Clause{Pattern: powerbox.ExactPattern(op(t, "mail.send")), Shape: powerbox.AnyArguments()},
		powerbox.Clause{Pattern: powerbox.ExactPattern(op(t, "mail.archive")), Shape: powerbox.AnyArguments()})
	if err != nil {
		t.Fatal(err)
	}
	type attempt struct {
		required []string
		missing  []string
	}
	var mu sync.Mutex
	var kept []attempt
	broken := false
	before := &powerboxa2a.Handoffs{
		From: "analyst", Card: mailer, Scope: scope, Now: now, FreeText: []powerbox.Operation{op(t, "mail.send"), op(t, "mail.read")},
		Skills: map[string]powerbox.Operation{"send": op(t, "mail.send"), "read": op(t, "mail.read"), "archive": op(t, "mail.archive")},
		Record: func(_ context.Context, h gate.Handoff, f *gate.Failure) error {
			mu.Lock()
			defer mu.Unlock()
			a := attempt{}
			for _, o := range h.Required {
				a.required = append(a.required, o.String())
			}
			if f != nil {
				a.missing = f.Missing
			}
			kept = append(kept, a)
			if broken {
				return errors.New("the disk is full")
			}
			return nil
		},
	}
	client, err := a2aclient.NewFromCard(t.Context(), mailer, a2aclient.WithJSONRPCTransport(&http.Client{}), a2aclient.WithCallInterceptors(before))
	if err != nil {
		t.Fatal(err)
	}
	analyst := stockServer(t, "analyst", func(ctx context.Context, x *a2asrv.ExecutorContext) a2a.Event {
		skill, _ := x.Metadata["handOn"].(string)
		message := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("do it"))
		if skill != "" {
			message = a2a.NewMessage(a2a.MessageRoleUser, a2a.NewDataPart(map[string]any{"skill": skill, "arguments": map[string]any{}}))
		}
		if _, err := client.SendMessage(ctx, &a2a.SendMessageRequest{Message: message}); err != nil {
			if event, yes := powerboxa2a.Violation(x, err); yes {
				return event
			}
			return a2a.NewStatusUpdateEvent(x, a2a.TaskStateFailed, a2a.NewMessageForTask(a2a.MessageRoleAgent, x, a2a.NewTextPart(err.Error())))
		}
		return a2a.NewStatusUpdateEvent(x, a2a.TaskStateCompleted, nil)
	}, "work")
	caller, err := a2aclient.NewFromCard(t.Context(), analyst, a2aclient.WithJSONRPCTransport(&http.Client{}))
	if err != nil {
		t.Fatal(err)
	}
	work := func(skill string) (*a2a.Task, string) {
		t.Helper()
		got, err := caller.SendMessage(t.Context(), &a2a.SendMessageRequest{
			Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("work")), Metadata: map[string]any{"handOn": skill},
		})
		if err != nil {
			t.Fatal(err)
		}
		task, ok := got.(*a2a.Task)
		if !ok {
			t.Fatalf("%T", got)
		}
		if task, err = caller.GetTask(t.Context(), &a2a.GetTaskRequest{ID: task.ID}); err != nil {
			t.Fatal(err)
		}
		said := ""
		if m := task.Status.Message; m != nil && len(m.Parts) > 0 {
			said = m.Parts[0].Text()
		}
		return task, said
	}
	for _, c := range []struct {
		skill, text string
		missing     []string
	}{
		{"send", "", nil},
		{"read", "Capability scope violation: {mail.read}", []string{"mail.read"}},
		{"archive", "Capability scope violation: {mail.archive}", []string{"mail.archive"}}, // not on the card
		{"purge", "Capability scope violation: {}", []string{}},                             // no operation
		{"", "Capability scope violation: {mail.read}", []string{"mail.read"}},
	} {
		was := reached
		task, said := work(c.skill)
		state, more := a2a.TaskStateFailed, 0
		if c.text == "" {
			state, more = a2a.TaskStateCompleted, 1
		}
		if task.Status.State != state || said != c.text || reached != was+more {
			t.Errorf("GATE-6 %q: %s %q, the peer reached %d times; want %s %q and %d", c.skill, task.Status.State, said, reached-was, state, c.text, more)
		}
		mu.Lock()
		if last := kept[len(kept)-1]; !slices.Equal(last.missing, c.missing) {
			t.Errorf("GATE-10 %q: recorded %+v; want missing %q", c.skill, last, c.missing)
		}
		mu.Unlock()
	}
	broken = true
	if task, said := work("send"); task.Status.State != a2a.TaskStateFailed || reached != 1 {
		t.Errorf("GATE-10 without a record: %s %q, the peer reached %d times", task.Status.State, said, reached)
	}
	if len(kept) != 6 {
		t.Errorf("GATE-10 %d attempts on record; want 6", len(kept))
	}
}
