package spiffe_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/identity/spiffe"
	"github.com/powerbox-project/powerbox/internal/identity/spiffe/spiffetest"
)

var start = time.Unix(1_800_000_000, 0)

const planner = "spiffe://prod.example/planner"

// becomes waits until a trust domain believes, or no longer believes, both kinds of an SVID.
func becomes(t *testing.T, name string, in *spiffe.Domains, d *spiffetest.Domain, at time.Time, want bool) {
	t.Helper()
	of := *d
	of.Now = at
	svid, kid := of.X509(t, planner), d.KeyID()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		err := in.Verify(svid.Certificates, at)
		_, ok := in.Authority(d.Name, kid, at)
		switch {
		case (err == nil) == want && ok == want:
			return
		case ctx.Err() != nil:
			t.Fatalf("%s: the X.509-SVID: %v, the JWT key: %t; want %t", name, err, ok, want)
		}
	}
}

// The bundles of a Workload API are those of its last word, and end with it.
func TestBundlesFollowTheWorkloadAPI(t *testing.T) {
	prod, other := spiffetest.New(t, "prod.example", start), spiffetest.New(t, "other.example", start)
	api := spiffetest.Serve(t, spiffetest.Served{Domains: []*spiffetest.Domain{prod, other}})
	in, err := spiffe.New([]config.TrustDomain{{Name: "prod.example", WorkloadAPI: api.Address, MaximumLifetime: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	var now atomic.Pointer[time.Time]
	now.Store(&start)
	ctx, cancel := context.WithCancel(t.Context())
	wait, err := in.Watch(ctx, spiffe.Watching{Now: func() time.Time { return *now.Load() }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer wait()
	defer cancel()
	becomes(t, "at first", in, prod, start, true)
	if in.Has(other.Name) {
		t.Error("a trust domain that the Workload API has is not configured, and counts")
	}
	next := prod.Rotated(t)
	api.Set(spiffetest.Served{Domains: []*spiffetest.Domain{next}})
	becomes(t, "rotated", in, next, start, true)
	becomes(t, "the one before", in, prod, start, false)
	api.Set(spiffetest.Served{Domains: []*spiffetest.Domain{other}})
	becomes(t, "no longer there", in, next, start, false)
	api.Set(spiffetest.Served{Domains: []*spiffetest.Domain{next}})
	becomes(t, "there again", in, next, start, true)
	api.Set(spiffetest.Served{Err: status.Error(codes.Unavailable, "restarting")})
	// The hour counts from the moment at which the Workload API was lost, whenever it is noticed.
	becomes(t, "not reached for too long", in, next, start.Add(time.Hour+time.Second), false)
	becomes(t, "not reached for less", in, next, start.Add(time.Hour), true)
	api.Set(spiffetest.Served{Domains: []*spiffetest.Domain{next}})
	becomes(t, "reached again", in, next, start.Add(3*time.Hour), true)
	api.Set(spiffetest.Served{Err: status.Error(codes.PermissionDenied, "no identity issued")})
	becomes(t, "refused", in, next, start, false)
}

// A bundle file is read in both forms. One that is no bundle leaves none.
func TestBundleFiles(t *testing.T) {
	prod, other := spiffetest.New(t, "prod.example", start), spiffetest.New(t, "other.example", start)
	in, err := spiffe.New([]config.TrustDomain{{Name: "prod.example", BundleFile: "b", MaximumLifetime: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	file := in.Files()[0]
	path := filepath.Join(t.TempDir(), "bundle")
	prod.WriteBundle(t, path)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Use(data); err != nil {
		t.Fatal(err)
	}
	becomes(t, "SPIFFE format", in, prod, start, true)
	for _, wrong := range []string{"", "{}", `{"keys":[]}`, "no bundle", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		if err := file.Use(data); err != nil {
			t.Fatal(err)
		}
		if err := file.Use([]byte(wrong)); err == nil {
			t.Errorf("%q is taken for a bundle", wrong)
		}
		becomes(t, wrong, in, prod, start, false)
	}
	if err := file.Use(prod.PEM(t)); err != nil {
		t.Fatal(err)
	}
	if err := in.Verify(prod.X509(t, planner).Certificates, start); err != nil {
		t.Errorf("PEM: %v", err)
	}
	if _, ok := in.Authority(prod.Name, prod.KeyID(), start); ok {
		t.Error("PEM has a JWT key")
	}
	if err := in.Verify(other.X509(t, planner).Certificates, start); err == nil {
		t.Error("another domain's authority speaks for this one")
	}
	if err := in.Verify(nil, start); err == nil {
		t.Error("no certificate is an SVID")
	}
	if err := in.Verify(other.X509(t, "spiffe://other.example/x").Certificates, start); err == nil {
		t.Error("a trust domain that is not configured is believed")
	}
}
