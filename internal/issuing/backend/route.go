package backend

import (
	"context"
	"fmt"

	"github.com/powerbox-project/powerbox/internal/issuing/provider"
)

// Route sends each call to the backend of its capability.
type Route map[string]provider.Backend

// Execute implements [provider.Backend].
func (r Route) Execute(ctx context.Context, e provider.Execution) (provider.Result, error) {
	to, ok := r[e.Capability.Name]
	if !ok {
		return provider.Result{}, fmt.Errorf("backend: capability %q has nothing behind it", e.Capability.Name)
	}
	return to.Execute(ctx, e)
}

// Poll implements [provider.Backend].
func (r Route) Poll(ctx context.Context, e provider.Execution, status string) (provider.Result, error) {
	to, ok := r[e.Capability.Name]
	if !ok {
		return provider.Result{}, fmt.Errorf("backend: capability %q has nothing behind it", e.Capability.Name)
	}
	return to.Poll(ctx, e, status)
}
