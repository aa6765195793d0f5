package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestLayer has the go command build this package as it is and changed, with this
// program instead of its cache: what it has made of the change is in the layer, and
// what it has not changed is where it was.
func TestLayer(t *testing.T) {
	root, dir := mustRoot(t), t.TempDir()
	program, own := filepath.Join(dir, "house"), filepath.Join(dir, "layer")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	cache := strings.TrimSpace(string(out))
	changed, overlay := filepath.Join(root, "tools", "house", "layer.go"), filepath.Join(dir, "overlay.json")
	src, err := os.ReadFile(changed)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "x.go"), append(src, "\nvar _ = 1\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	spec, _ := json.Marshal(map[string]map[string]string{"Replace": {changed: filepath.Join(dir, "x.go")}})
	if err := os.WriteFile(overlay, spec, 0o600); err != nil {
		t.Fatal(err)
	}
	list := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-export", "-f", "{{.Export}}"}, args...)...)
		cmd.Env = append(os.Environ(), layer{cache, own}.environment(program)...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	if at := list("errors"); !strings.HasPrefix(at, cache) {
		t.Errorf("what is not changed is at %s; want it below %s", at, cache)
	}
	for range 2 { // the second pass finds the files of the first
		if at := list("-overlay="+overlay, "."); !strings.HasPrefix(at, own) {
			t.Errorf("what is changed is at %s; want it below %s", at, own)
		}
	}
}

// TestLayerKeeps puts something into a layer, and finds that and nothing else.
func TestLayerKeeps(t *testing.T) {
	l := layer{t.TempDir(), t.TempDir()}
	in := `{"ID":1,"Command":"get","ActionID":"AQI="}` + "\n\n" + `{"ID":2,"Command":"put","ActionID":"AQI=","OutputID":"AwQ=","BodySize":3}` + "\n\n" + `"YWJj"` + "\n" +
		`{"ID":3,"Command":"get","ActionID":"AQI="}` + "\n" + `{"ID":4,"Command":"other"}` + "\n" + `{"ID":5,"Command":"close"}` + "\n"
	var out bytes.Buffer
	if err := l.serve(strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	var got []found
	for d := json.NewDecoder(&out); d.More(); {
		var a found
		if err := d.Decode(&a); err != nil {
			t.Fatal(err)
		}
		got = append(got, a)
	}
	if len(got) != 6 || !got[1].Miss || got[2].DiskPath == "" || got[3].DiskPath != got[2].DiskPath || got[3].Size != 3 || got[4].Err == "" || got[5].ID != 5 {
		t.Fatalf("%+v", got)
	}
	if data, err := os.ReadFile(got[3].DiskPath); err != nil || string(data) != "abc" {
		t.Errorf("%q %v", data, err)
	}
	if err := os.WriteFile(got[3].DiskPath, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if a := l.get([]byte{1, 2}); !a.Miss {
		t.Errorf("what was cut short is found: %+v", a)
	}
	if env := (layer{"a'b", "c"}).environment("house"); env != nil {
		t.Errorf("a path that cannot be quoted: %q", env)
	}
}
