package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	a2agrpcv0 "github.com/a2aproject/a2a-go/v2/a2agrpc/v0"
	a2agrpcv1 "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"google.golang.org/grpc"
)

// unencrypted is a server that speaks HTTP/1.1 and HTTP/2, both without TLS, as
// gRPC needs it.
func unencrypted(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetHTTP1(true)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	t.Cleanup(srv.Close)
	return srv
}

// newPolyglot serves a stepwise agent on one binding and version, so that every
// client takes that one, or on more, of which it prefers the first. Its card is
// what agents of that version publish.
func newPolyglot(t *testing.T, on wire, step <-chan struct{}, more ...wire) *stock {
	t.Helper()
	s := &stock{}
	mux := http.NewServeMux()
	srv := unencrypted(t, mux)
	s.url = srv.URL
	card := &a2a.AgentCard{
		Name: "Documents", Description: "Keeps documents", Version: "1.0.0",
		SupportedInterfaces: []*a2a.AgentInterface{interfaceOn(on, srv.URL)},
		DefaultInputModes:   []string{"text"}, DefaultOutputModes: []string{"text"},
		Capabilities: a2a.AgentCapabilities{Streaming: true, ExtendedAgentCard: true},
	}
	for _, other := range more {
		card.SupportedInterfaces = append(card.SupportedInterfaces, interfaceOn(other, srv.URL))
	}
	for _, name := range []string{"search_documents", "delete_document"} {
		card.Skills = append(card.Skills, a2a.AgentSkill{ID: name, Name: name, Description: name, Tags: []string{"test"}})
	}
	store := taskstore.NewInMemory(&taskstore.InMemoryStoreConfig{Authenticator: func(context.Context) (string, error) { return "anybody", nil }})
	handler := settled{a2asrv.NewHandler(stepwise{step}, a2asrv.WithTaskStore(store), a2asrv.WithExtendedAgentCard(card))}
	services := grpc.NewServer()
	a2agrpcv1.NewHandler(handler).RegisterWith(services)
	a2agrpcv0.NewHandler(handler).RegisterWith(services)
	for path, h := range map[string]http.Handler{
		"/invoke": a2asrv.NewJSONRPCHandler(handler), "/rest/": http.StripPrefix("/rest", a2asrv.NewRESTHandler(handler)),
		"/old": a2av0.NewJSONRPCHandler(handler), "/oldrest/": http.StripPrefix("/oldrest", a2av0.NewRESTHandler(handler)),
		"/lf.a2a.v1.A2AService/": services, "/a2a.v1.A2AService/": services,
	} {
		mux.Handle(path, s.lining(h))
	}
	if on.version == "0.3" {
		mux.Handle(cardPath, a2asrv.NewAgentCardHandler(a2av0.NewStaticAgentCardProducer(card)))
	} else {
		mux.Handle(cardPath, a2asrv.NewStaticAgentCardHandler(card))
	}
	return s
}

// interfaceOn is where a polyglot agent takes calls of a binding.
func interfaceOn(on wire, url string) *a2a.AgentInterface {
	at := a2a.AgentInterface{URL: url + "/invoke", ProtocolBinding: a2a.TransportProtocolJSONRPC, ProtocolVersion: a2a.Version}
	old := on.version == "0.3"
	if old {
		at.URL, at.ProtocolVersion = url+"/old", a2av0.Version
	}
	switch on.binding {
	case overREST:
		at.URL, at.ProtocolBinding = url+"/rest", a2a.TransportProtocolHTTPJSON
		if old {
			at.URL = url + "/oldrest"
		}
	case overGRPC:
		at.URL, at.ProtocolBinding = strings.TrimPrefix(url, "http://"), a2a.TransportProtocolGRPC
	}
	return &at
}

// guarded starts powerbox in front of a polyglot agent, with an address for its
// gRPC.
func guarded(t *testing.T, agent *stock, mode, extra string) *town {
	t.Helper()
	w := &town{t: t, dir: t.TempDir(), documents: agent, grpc: map[string]string{}}
	w.guard(mode, extra)
	return w
}

func (w *town) guard(mode, extra string) {
	w.t.Helper()
	w.grpc["documents"] = "127.0.0.1:" + freePort(w.t)
	w.serve(fmt.Sprintf("%s, grpc: {listen: %q}", mode, w.grpc["documents"]), extra)
	w.t.Cleanup(h2.CloseIdleConnections) // for which it would wait at its end
}

// lining is noting that also keeps the request line, as HTTP/2 would: among the
// headers.
func (s *stock) lining(next http.Handler) http.Handler {
	keep := s.noting(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header[":path"] = []string{r.Method + " " + r.URL.RequestURI()}
		keep.ServeHTTP(w, r)
	})
}
