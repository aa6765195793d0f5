package mcp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox"
)

func TestMirroredHeadersSayWhatArgumentsSay(t *testing.T) {
	v, err := powerbox.ParseValue([]byte(`{"Region_Name":"eu","n":1.0,"in":{"deep":true},"list":["x"]}`))
	if err != nil {
		t.Fatal(err)
	}
	all := mirrorsOf(v)
	for _, c := range []struct {
		name, said string
		want       bool
	}{
		{"region-name", "eu", true},
		{"region-name", "us", false},
		{"region-name", "1", false},
		{"n", "1", true},
		{"n", "1e0", true},
		{"n", "2", false},
		{"deep", "true", true},
		{"deep", "false", false},
		{"other", "eu", true},
		{"other", "us", false},
		{"list", "x", false},
	} {
		if got := all.has(c.name, c.said); got != c.want {
			t.Errorf("%s: %s is said: %v; want %v", c.name, c.said, got, c.want)
		}
	}
}

func TestATK55_MirroredHeadersAreFew(t *testing.T) {
	m := Message{Revision: Stateless, Kind: Request, Method: "tools/call", Tool: "t", Subject: "t", Arguments: powerbox.Object(powerbox.Member{Name: "a", Value: powerbox.String("x")})}
	headers := map[string][]string{HeaderVersion: {Stateless}}
	for n := range maxHeaders + 1 {
		headers[fmt.Sprintf("Mcp-Param-%d", n)] = []string{"x"}
	}
	if wrong := m.CheckHeaders(headers, strings.ToLower); wrong == nil || !strings.Contains(wrong.Message, "more than 64 headers") {
		t.Errorf("ATK-55: %v", wrong)
	}
}
