package periodic_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/powerbox-project/powerbox/internal/periodic"
)

func TestCallsUntilTheContextEnds(t *testing.T) {
	seconds := func(call func(context.Context, time.Duration, func(context.Context))) (at []int) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 35*time.Second)
			defer cancel()
			began := time.Now()                                                                                    //nolint:forbidigo // the clock of the bubble
			call(ctx, 10*time.Second, func(context.Context) { at = append(at, int(time.Since(began).Seconds())) }) //nolint:forbidigo // the clock of the bubble
		})
		return at
	}
	if at := seconds(periodic.Run); !slices.Equal(at, []int{0, 10, 20, 30}) {
		t.Errorf("Run calls after %v seconds", at)
	}
	if at := seconds(periodic.Later); !slices.Equal(at, []int{10, 20, 30}) {
		t.Errorf("Later calls after %v seconds", at)
	}
}
