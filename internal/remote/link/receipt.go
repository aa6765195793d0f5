package link

import (
	"context"
	"errors"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
)

// ReceiptQuery asks for the receipt of a record of the gateway.
type ReceiptQuery struct {
	Record string `json:"record"`
}

// ReceiptAnswer is the answer. There is no receipt of a record that the server does not
// have yet.
type ReceiptAnswer struct {
	Receipt []byte `json:"receipt,omitempty"`
}

const (
	// receiptTime is how long an answer waits for its receipt: for the record on its way
	// to the server, and for witnesses.
	receiptTime  = 4 * time.Second
	receiptEvery = 50 * time.Millisecond
)

// Receipt returns the receipt of a record, once the server has the record.
func (r *Remote) Receipt(ctx context.Context, record string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, receiptTime)
	defer cancel()
	tick := time.NewTicker(receiptEvery)
	defer tick.Stop()
	for {
		var a ReceiptAnswer
		if err := r.Client.callFor(ctx, receiptTime, PathReceipt, ReceiptQuery{record}, &a); err != nil {
			return nil, err
		}
		if len(a.Receipt) > 0 {
			_, err := evidence.ParseReceipt(a.Receipt)
			return a.Receipt, err
		}
		select {
		case <-ctx.Done():
			return nil, errors.New("the server does not have the record yet")
		case <-tick.C:
		}
	}
}
