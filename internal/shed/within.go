package shed

import (
	"errors"
	"fmt"
	"time"
)

// ErrUnderWay says that something did not end in time. It may still take effect.
var ErrUnderWay = errors.New("it did not end in time")

// Within waits for something for a time; 0 is as long as it takes.
func Within[T any](patience time.Duration, do func() (T, error)) (T, error) {
	if patience == 0 {
		return do()
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil { // as the server does for what it serves itself
				done <- result{err: fmt.Errorf("panic: %v", p)}
			}
		}()
		value, err := do()
		done <- result{value, err}
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-timer.C:
		var none T
		return none, ErrUnderWay
	}
}
