package location_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/powerbox-project/powerbox/location"
)

// A service that only callers with a grant reach: a request without a token is
// refused before the provider is asked.
func ExampleVerifier_Middleware() {
	verifier := location.Verifier{
		Location:      "https://pay.example/refunds",
		Capabilities:  []string{"refund.pay"},
		Introspection: "https://powerbox.example/agent/introspect",
		Secret:        "what the provider knows the service by",
	}
	pay := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call, ok := location.FromContext(r.Context())
		if !ok {
			http.Error(w, "not by the verifier", http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, "%s for %s: %s", call.Capability, call.User, call.Arguments)
	})
	guarded, err := verifier.Middleware(pay)
	if err != nil {
		fmt.Println(err)
		return
	}
	answer := httptest.NewRecorder()
	guarded.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "https://pay.example/refunds",
		strings.NewReader(`{"capability": "refund.pay", "arguments": {"amount": 20}}`)))
	fmt.Println(answer.Code, answer.Body)
	// Output:
	// 401 {"error":"authentication_required","message":"want one token of an agent, for https://pay.example/refunds"}
}
