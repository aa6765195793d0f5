package console

import (
	"net/http"

	"github.com/powerbox-project/powerbox/internal/shed"
)

// Late answers a request that the store did not answer in time. It is plain text: a page
// would have to ask the store who reads it.
func (k *Console) Late(w http.ResponseWriter, r *http.Request) {
	shed.LogLate(k.config.Log, r)
	secured(w.Header())
	w.Header().Set("Retry-After", "1")
	http.Error(w, shed.LateMessage(r.Method), http.StatusServiceUnavailable)
}
