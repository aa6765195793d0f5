package provider

import (
	"context"
	"log/slog"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// Data is how results of capabilities are labelled (ADR 149).
type Data struct {
	Book    gate.DataKeeper
	Observe bool
	Flow    func(capability string) gate.Flow // as configured now
}

// maxTask bounds the name of a task, in bytes.
const maxTask = 128

// labelled holds a call to the rules about the origin of data. An execution cannot wait for a
// person, so a rule that asks one refuses it.
func (p *Provider) labelled(call *gate.Call, s Session, c *Capability, task string) {
	d := p.config.Data
	if d == nil {
		return
	}
	if len(task) > maxTask || strings.ContainsFunc(task, func(r rune) bool { return r <= ' ' || r > '~' }) {
		call.Refused = append(call.Refused, evidence.Reason{Code: string(agentauth.CodeInvalidRequest), Message: "the name of the task is longer than 128 bytes, or not visible ASCII"})
		return
	}
	sink := d.Flow(c.Name).Sink
	call.Ask.Data = &gate.Data{
		Book: d.Book, Observe: d.Observe, Principal: s.Agent.User, Task: task,
		Sink: func(powerbox.Operation) gate.Sink { return sink.Unasked() }, Delegates: func(string) bool { return false },
	}
}

// noteRead keeps the label of a result before the call is made.
func (p *Provider) noteRead(ctx context.Context, by *gate.Read, c *Capability) error {
	if p.config.Data == nil || by == nil || len(by.By.Holders) == 0 {
		return nil
	}
	return p.unnoted(ctx, c, p.config.Data.Book.Note(ctx, by.By, p.config.Data.Flow(c.Name).Yields))
}

// earn keeps the values of a trusted result that a rule can ask about, before the agent has
// them.
func (p *Provider) earn(ctx context.Context, v gate.Verdict, c *Capability, result powerbox.Value) error {
	if p.config.Data == nil || v.Data == nil || len(v.Data.By.Holders) == 0 {
		return nil
	}
	values := p.config.Data.Flow(c.Name).Earned(v.Record.Intent.Operation, result)
	if len(values) == 0 {
		return nil
	}
	return p.unnoted(ctx, c, p.config.Data.Book.Earn(context.WithoutCancel(ctx), v.Data.By, values))
}

// unnoted keeps an error that says that a label or value cannot be kept, where rules refuse calls.
func (p *Provider) unnoted(ctx context.Context, c *Capability, err error) error {
	if err == nil {
		return nil
	}
	p.config.Log.WarnContext(ctx, "what an agent reads cannot be noted", slog.String("capability", c.Name), slog.Bool("goes_on", p.config.Data.Observe), slog.Any("error", err))
	if p.config.Data.Observe {
		return nil
	}
	return agentauth.Errorf(agentauth.CodeUnavailable, "what the call reads cannot be noted now; try again in a moment")
}
