package app

import (
	"context"

	"github.com/powerbox-project/powerbox/internal/issuing/approval"
	"github.com/powerbox-project/powerbox/internal/web/api"
)

// outbox shows operators the messages of the desk's webhooks.
type outbox struct{ desk *approval.Desk }

// Webhooks implements [api.Outbox].
func (o outbox) Webhooks(ctx context.Context) (api.Webhooks, error) {
	u, err := o.desk.Undelivered(ctx)
	out := api.Webhooks{Webhooks: []api.Webhook{}, Dead: []api.WebhookMessage{}}
	for _, h := range u.Hooks {
		out.Webhooks = append(out.Webhooks, api.Webhook{Name: h.Name, Waiting: h.Waiting, Dead: h.Dead})
	}
	for _, m := range u.Dead {
		out.Dead = append(out.Dead, webhookMessage(m))
	}
	return out, err
}

// Redeliver implements [api.Outbox].
func (o outbox) Redeliver(ctx context.Context, by, id string) (api.WebhookMessage, error) {
	m, err := o.desk.Redeliver(ctx, by, id)
	return webhookMessage(m), err
}

func webhookMessage(m approval.Message) api.WebhookMessage {
	return api.WebhookMessage{ID: m.ID, Webhook: m.Hook, Event: string(m.Event), Question: m.Question, Created: m.Created, Died: m.Died, Tries: m.Tries, Why: m.Why}
}

// messages counts the messages that webhooks have not taken, for the meter.
func (i *Instance) messages(dead bool) func() int64 {
	return func() int64 {
		if i.desk == nil {
			return 0
		}
		u, err := i.desk.Undelivered(context.Background())
		if err != nil {
			return 0
		}
		n := 0
		for _, h := range u.Hooks {
			if dead {
				n += h.Dead
			} else {
				n += h.Waiting
			}
		}
		return int64(n)
	}
}
