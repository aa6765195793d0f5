package doors_test

import (
	"encoding/json"
	"os"
	"testing"

	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	manager "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"

	authz "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	filter "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"
)

// TestTheExamplesForEnvoyAreEnvoys: they are read as Envoy's own definitions, which refuse
// unknown names, and both fail closed with whole bodies.
func TestTheExamplesForEnvoyAreEnvoys(t *testing.T) {
	for _, name := range []string{"envoy.yaml", "envoy-ext-authz.yaml"} {
		text, err := os.ReadFile("../../../deploy/gateways/" + name)
		if err != nil {
			t.Fatal(err)
		}
		var document any
		if err := yaml.Unmarshal(text, &document); err != nil {
			t.Fatal(err)
		}
		asJSON, err := json.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		var b bootstrap.Bootstrap
		if err := protojson.Unmarshal(asJSON, &b); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := b.ValidateAll(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var m manager.HttpConnectionManager
		unpack(t, b.GetStaticResources().GetListeners()[0].GetFilterChains()[0].GetFilters()[0].GetTypedConfig(), &m)
		if err := m.ValidateAll(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		one, err := m.GetHttpFilters()[0].GetTypedConfig().UnmarshalNew()
		if err != nil {
			t.Fatal(err)
		}
		switch f := one.(type) {
		case *filter.ExternalProcessor:
			mode := f.GetProcessingMode()
			if f.GetFailureModeAllow() || mode.GetRequestBodyMode() != filter.ProcessingMode_BUFFERED || mode.GetResponseBodyMode() != filter.ProcessingMode_BUFFERED || mode.GetRequestTrailerMode() != filter.ProcessingMode_SEND || mode.GetResponseTrailerMode() != filter.ProcessingMode_SEND || f.ValidateAll() != nil {
				t.Errorf("%s: %v", name, f)
			}
		case *authz.ExtAuthz:
			if f.GetFailureModeAllow() || f.GetWithRequestBody().GetMaxRequestBytes() == 0 || f.GetWithRequestBody().GetAllowPartialMessage() || !f.GetWithRequestBody().GetPackAsBytes() || f.ValidateAll() != nil {
				t.Errorf("%s: %v", name, f)
			}
		default:
			t.Errorf("%s: the first filter is %T", name, one)
		}
	}
}

func unpack(t *testing.T, from *anypb.Any, to *manager.HttpConnectionManager) {
	t.Helper()
	if err := from.UnmarshalTo(to); err != nil {
		t.Fatal(err)
	}
}
