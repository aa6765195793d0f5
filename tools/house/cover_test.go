package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseProfile(t *testing.T) {
	profile := "mode: set\n" +
		mainModule + "/token/aat.go:10.2,12.3 2 1\n" +
		mainModule + "/token/aat.go:14.2,15.3 1 0\n" +
		mainModule + "/token/aat.go:17.2,17.3 0 0\n"
	missed, total, err := parseProfile(profile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"token/aat.go:14.2,15.3"}, missed); diff != "" || total != 3 {
		t.Errorf("total %d, missed (-want +got):\n%s", total, diff)
	}
	for _, bad := range []string{"mode: set\nx", "a.go:1.1,2.2 1 many\n"} {
		if _, _, err := parseProfile(bad); err == nil {
			t.Errorf("parseProfile(%q) has no error", bad)
		}
	}
}
