package setup

import (
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/config"
)

// What an agent answers past the gateway: only a refusal is one.
func TestJudgeKnock(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"unauthorized":      {401, "", knockRefused},
		"forbidden":         {403, "", knockRefused},
		"denied":            {200, `{"jsonrpc":"2.0","id":1,"error":{"code":-31403,"message":"no"}}`, knockRefused},
		"no such task":      {200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"no"}}`, knockServed},
		"REST, no task":     {404, `{"error":{"code":404}}`, knockServed},
		"something else":    {500, "x", knockServed},
		"a task, after all": {200, `{"result":{}}`, knockServed},
	} {
		if got := judgeKnock(c.status, []byte(c.body)); got != c.want {
			t.Errorf("%s: %s; want %s", name, got, c.want)
		}
	}
}

// Clocks that differ are found with every source of time, and reported once.
func TestDoctorClock(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for date, want := range map[string]string{
		"Fri, 02 Jan 2026 03:04:07 GMT": healthy, "Fri, 02 Jan 2026 03:05:07 GMT": broken, "": warning,
	} {
		d := &doctor{config: &config.Config{}}
		d.clock("the agent's", date, now)
		d.clock("the server's", date, now)
		if d.findings[0].Status != want || d.clocked == (len(d.findings) > 1) || !strings.HasPrefix(d.findings[0].Message, "the agent's clock") {
			t.Errorf("%q: %+v", date, d.findings)
		}
	}
}
