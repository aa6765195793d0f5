package quarterly

import (
	"context"
	"slices"
	"sync"
)

// Letter is a mail that has been sent.
type Letter struct{ To, Subject, Body string }

// outbox is the mail agent; letters in it have left the house.
type outbox struct {
	mu   sync.Mutex
	sent []Letter
}

func (o *outbox) skills() []skill {
	return []skill{{"send_mail", "Send mail", "Sends a mail: {to, subject, body}", o.send, nil}}
}

func (o *outbox) send(_ context.Context, _ Incoming, args map[string]any) (Answer, error) {
	if err := onlyArguments(args, "to", "subject", "body"); err != nil {
		return Answer{}, err
	}
	letter := Letter{stringArgument(args, "to"), stringArgument(args, "subject"), stringArgument(args, "body")}
	if letter.To == "" || letter.Body == "" {
		return Answer{}, invalid("a mail needs \"to\" and \"body\"")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent = append(o.sent, letter)
	return Answer{Text: "Sent to " + letter.To + "."}, nil
}

func (o *outbox) letters() []Letter {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.sent)
}
