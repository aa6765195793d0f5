package serve

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
)

// The messages of net/http are lines of the log like any other.
func TestLinesOfTheLogAreJSON(t *testing.T) {
	var log strings.Builder
	s := Server{Log: slog.New(slog.NewJSONHandler(&log, nil))}.server(http.NotFoundHandler())
	s.ErrorLog.Print("http: TLS handshake error")
	var line struct{ Level, Msg string }
	if err := json.Unmarshal([]byte(log.String()), &line); err != nil || line.Level != "WARN" || line.Msg != "http: TLS handshake error" {
		t.Errorf("%v: %s", err, log.String())
	}
}
