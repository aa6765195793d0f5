package cli

import (
	"errors"
	"fmt"

	"github.com/powerbox-project/powerbox"
)

// The exit codes.
const (
	ExitFine    = 0
	ExitError   = 1
	exitUsage   = 2
	ExitDenied  = 3
	ExitInvalid = 4
	ExitLags    = 5
	ExitPending = 6
)

// exitStatus is an error that has its own exit code. Without err there is
// nothing to say on standard error: the answer is on standard output.
type exitStatus struct {
	code int
	Err  error
}

func (e *exitStatus) Error() string { return fmt.Sprint(e.Err) }

func (e *exitStatus) Unwrap() error { return e.Err }

// Exit makes an error that has its own exit code. A nil err says nothing on standard error.
func Exit(code int, err error) error { return &exitStatus{code, err} }

// Usage makes err, which is not nil, one of wrong use.
func Usage(err error) error {
	return &exitStatus{exitUsage, err}
}

func exitCode(err error) int {
	var status *exitStatus
	switch {
	case err == nil:
		return ExitFine
	case errors.As(err, &status):
		return status.code
	case errors.Is(err, powerbox.ErrDenied):
		return ExitDenied
	}
	return ExitError
}

// Invalid makes err one of something that is not what it should be.
func Invalid(err error) error {
	if err == nil {
		return nil
	}
	return Exit(ExitInvalid, err)
}
