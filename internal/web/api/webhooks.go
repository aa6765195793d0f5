package api

import (
	"context"
	"net/http"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// Webhooks is the state of the webhooks that are told of questions to people.
type Webhooks struct {
	Webhooks []Webhook        `json:"webhooks"`
	Dead     []WebhookMessage `json:"undelivered"` // given up, newest first
}

// Webhook is one webhook.
type Webhook struct {
	Name    string `json:"name"`
	Waiting int    `json:"waiting"`     // messages that are tried
	Dead    int    `json:"undelivered"` // messages that were given up
}

// WebhookMessage is a message that no webhook took.
type WebhookMessage struct {
	ID       string    `json:"id"`
	Webhook  string    `json:"webhook"`
	Event    string    `json:"event"`
	Question string    `json:"question"`
	Created  time.Time `json:"created"`
	Died     time.Time `json:"given_up"`
	Tries    int       `json:"tries"`
	Why      string    `json:"why"`
}

// Outbox shows the operator's interface the state of webhooks.
type Outbox interface {
	Webhooks(ctx context.Context) (Webhooks, error)
	// Redeliver has a message tried again. One that is not there is
	// [issuer.ErrNotFound].
	Redeliver(ctx context.Context, by, id string) (WebhookMessage, error)
}

func (a *Admin) webhooks(r *http.Request) (any, error) {
	if a.Outbox == nil {
		return Webhooks{Webhooks: []Webhook{}, Dead: []WebhookMessage{}}, nil
	}
	return a.Outbox.Webhooks(r.Context())
}

func (a *Admin) redeliver(r *http.Request) (any, error) {
	if a.Outbox == nil {
		return nil, issuer.ErrNotFound
	}
	return a.Outbox.Redeliver(r.Context(), operator(r), r.PathValue("id"))
}
