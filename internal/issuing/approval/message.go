package approval

import "time"

// Message is one message to a webhook. It is stored with what it tells of, in one
// transaction, and tried until the webhook takes it, or until it is not needed any
// more: then it is kept for a while as one that was not delivered.
type Message struct {
	ID       string // which the receiver sees, the same at every try
	Hook     string // name of the webhook
	Event    Event
	Question string
	Body     []byte
	Created  time.Time
	Due      time.Time // of the next try
	Expires  time.Time // when it is not tried any more
	Tries    int
	Died     time.Time // when it was given up, zero while it is tried
	Why      string    // what went wrong with the last try
}

// MessageCount is how many messages there are to one webhook.
type MessageCount struct{ Waiting, Dead int }

// Outbox reads messages, as [Reader] does everything else.
type Outbox interface {
	// DueMessages returns up to limit messages that are to be tried, longest due
	// first.
	DueMessages(now time.Time, limit int) ([]Message, error)
	// DeadMessages returns up to limit messages that were given up, newest first.
	DeadMessages(limit int) ([]Message, error)
	// Message returns one by its id.
	Message(id string) (Message, error)
	// CountMessages returns how many there are, by the name of the webhook.
	CountMessages() (map[string]MessageCount, error)
}

// OutboxTx changes messages within one transaction.
type OutboxTx interface {
	// PutMessage stores a message, or what has become of it.
	PutMessage(m Message) error
	DeleteMessage(id string) error
	// ForgetMessages forgets those that were given up before a time.
	ForgetMessages(before time.Time) error
}
