package cli

import (
	"context"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
)

// Verb is the frame of a command that calls a running server and shows what it answers.
type Verb struct {
	output *string
	// ask makes one call and decodes its answer. What it returns prints the answer as JSON.
	ask func(ctx context.Context, c Call, into any) (asJSON func() error, err error)
}

// Call is one call of a server.
type Call struct {
	Method, Path string
	Body         any    // nil for none
	About        string // begins the error of a call that fails, "" for none
}

// Get is a call that reads.
func Get(path string) Call { return Call{Method: http.MethodGet, Path: path} }

// Post is a call that changes something, or asks with a body.
func Post(path string, body any) Call { return Call{Method: http.MethodPost, Path: path, Body: body} }

// Delete is a call that removes something.
func Delete(path string) Call { return Call{Method: http.MethodDelete, Path: path} }

// Of returns the call with words before its error, such as "person freeze user:alice".
func (c Call) Of(about string) Call {
	c.About = about
	return c
}

func (c Call) failed(err error) error {
	if err == nil || c.About == "" {
		return err
	}
	return fmt.Errorf("%s: %w", c.About, err)
}

// OperatorVerb adds the flags of a command that calls the server as an operator: --output, --config and --server.
func (p *Program) OperatorVerb(cmd *cobra.Command) *Verb {
	flags := AddOperatorFlags(cmd)
	return &Verb{OutputFlag(cmd), func(ctx context.Context, c Call, into any) (func() error, error) {
		op, err := p.Operator(flags)
		if err != nil {
			return nil, err
		}
		return func() error { return p.PrintJSON(into) }, c.failed(op.Call(ctx, c.Method, c.Path, c.Body, into))
	}}
}

// PersonVerb adds the flags of a command that calls the server as a person: --output, --config, --server, --session-file and --as.
// JSON is printed as the server answered it.
func (p *Program) PersonVerb(cmd *cobra.Command) *Verb {
	flags := AddPersonFlags(cmd)
	return &Verb{OutputFlag(cmd), func(ctx context.Context, c Call, into any) (func() error, error) {
		who, err := p.Person(flags)
		if err != nil {
			return nil, err
		}
		raw, err := who.Call(ctx, c.Method, c.Path, c.Body, into)
		return func() error { return p.PrintRaw(raw) }, c.failed(err)
	}}
}

// Show makes one call and shows its answer: as JSON with --output json, and by text otherwise.
func Show[T any](ctx context.Context, v *Verb, c Call, text func(answer T) error) error {
	var answer T
	asJSON, err := v.ask(ctx, c, &answer)
	if err != nil {
		return err
	}
	if *v.output == "json" {
		return asJSON()
	}
	return text(answer)
}
