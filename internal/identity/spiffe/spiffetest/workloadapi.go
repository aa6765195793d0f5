package spiffetest

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/spiffe/go-spiffe/v2/proto/spiffe/workload"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
	"google.golang.org/grpc"
)

// WorkloadAPI is a SPIFFE Workload API on a socket.
type WorkloadAPI struct {
	workload.UnimplementedSpiffeWorkloadAPIServer
	Address string
	mu      sync.Mutex
	changed chan struct{} // closed when serves changes
	serves  Served
}

// Served is what a Workload API gives its workloads.
type Served struct {
	SVID    *x509svid.SVID // of the workload that asks; nil for none
	Tokens  func(audience string) (id, token string)
	Domains []*Domain // whose bundles it has
	Err     error     // in place of everything
}

// Serve starts a Workload API, which ends with the test.
func Serve(t testing.TB, s Served) *WorkloadAPI {
	t.Helper()
	dir, err := os.MkdirTemp("", "spiffe") //nolint:usetesting // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := &WorkloadAPI{Address: "unix://" + filepath.Join(dir, "agent.sock"), changed: make(chan struct{}), serves: s}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, "agent.sock"))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	workload.RegisterSpiffeWorkloadAPIServer(server, w)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	return w
}

// Set serves something else, to those who watch as well.
func (w *WorkloadAPI) Set(s Served) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.serves = s
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *WorkloadAPI) now() (Served, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.serves, w.changed
}

// watched sends the message made of Served, and again whenever Served changes.
func watched[T any](w *WorkloadAPI, stream grpc.ServerStreamingServer[T], made func(Served) (*T, error)) error {
	for {
		s, changed := w.now()
		if s.Err != nil {
			return s.Err
		}
		answer, err := made(s)
		if err == nil {
			err = stream.Send(answer)
		}
		if err != nil {
			return err
		}
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-changed:
		}
	}
}

// FetchX509SVID implements the Workload API.
func (w *WorkloadAPI) FetchX509SVID(_ *workload.X509SVIDRequest, stream grpc.ServerStreamingServer[workload.X509SVIDResponse]) error {
	return watched(w, stream, func(s Served) (*workload.X509SVIDResponse, error) {
		if s.SVID == nil {
			return nil, errors.New("there is no SVID")
		}
		key, err := x509.MarshalPKCS8PrivateKey(s.SVID.PrivateKey)
		var chain, bundle []byte
		for _, c := range s.SVID.Certificates {
			chain = append(chain, c.Raw...)
		}
		for _, d := range s.Domains {
			if d.Name == s.SVID.ID.TrustDomain() {
				bundle = d.root.Raw
			}
		}
		return &workload.X509SVIDResponse{Svids: []*workload.X509SVID{{SpiffeId: s.SVID.ID.String(), X509Svid: chain, X509SvidKey: key, Bundle: bundle}}}, err
	})
}

// FetchX509Bundles implements the Workload API.
func (w *WorkloadAPI) FetchX509Bundles(_ *workload.X509BundlesRequest, stream grpc.ServerStreamingServer[workload.X509BundlesResponse]) error {
	return watched(w, stream, func(s Served) (*workload.X509BundlesResponse, error) {
		out := &workload.X509BundlesResponse{Bundles: map[string][]byte{}}
		for _, d := range s.Domains {
			out.Bundles[d.Name.IDString()] = d.root.Raw
		}
		return out, nil
	})
}

// FetchJWTBundles implements the Workload API.
func (w *WorkloadAPI) FetchJWTBundles(_ *workload.JWTBundlesRequest, stream grpc.ServerStreamingServer[workload.JWTBundlesResponse]) error {
	return watched(w, stream, func(s Served) (*workload.JWTBundlesResponse, error) {
		out := &workload.JWTBundlesResponse{Bundles: map[string][]byte{}}
		for _, d := range s.Domains {
			data, err := d.keys()
			if err != nil {
				return nil, err
			}
			out.Bundles[d.Name.IDString()] = data
		}
		return out, nil
	})
}

// FetchJWTSVID implements the Workload API.
func (w *WorkloadAPI) FetchJWTSVID(_ context.Context, r *workload.JWTSVIDRequest) (*workload.JWTSVIDResponse, error) {
	s, _ := w.now()
	if s.Err != nil || s.Tokens == nil {
		return nil, errors.Join(s.Err, errors.New("there is no token"))
	}
	id, token := s.Tokens(r.Audience[0])
	return &workload.JWTSVIDResponse{Svids: []*workload.JWTSVID{{SpiffeId: id, Svid: token}}}, nil
}
