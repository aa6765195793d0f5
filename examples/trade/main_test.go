package main

import (
	"bytes"
	"os"
	"testing"
)

func TestDump(t *testing.T) {
	var out bytes.Buffer
	got, err := run(t.Context(), &out)
	if err != nil {
		t.Fatal(err)
	}
	os.WriteFile("/tmp/wt/trade.jsonl", got.audit.Bundle, 0o600)
}
