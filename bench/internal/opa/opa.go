// Package opa runs OPA as a library with its decision log in a file. The log is the one that
// OPA writes, or one that has each decision on the disk before its answer.
package opa

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/open-policy-agent/opa/v1/logging"
	"github.com/open-policy-agent/opa/v1/plugins"
	"github.com/open-policy-agent/opa/v1/sdk"
	"github.com/sirupsen/logrus"
)

// synced is the name of the plugin that syncs the decision log.
const synced = "synced"

// Settings say what OPA decides by and where it records.
type Settings struct {
	Policy string // in Rego
	Log    string // the file of the decision log, which is made anew
	Synced bool   // each decision is on the disk before its answer
}

// Start starts OPA with one policy, which is a bundle in a folder below the current one. OPA
// remembers the tokens that it has verified: its cache io_jwt is on.
func Start(ctx context.Context, s Settings) (*sdk.OPA, error) {
	dir, err := os.MkdirTemp(".", "opa")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "policy.rego"), []byte(s.Policy), 0o600); err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	file, err := os.Create(s.Log)
	if err != nil {
		return nil, err
	}
	tokens := map[string]any{"io_jwt": map[string]any{"disabled": false, "max_num_entries": 10_000}}
	settings := map[string]any{
		"bundles":       map[string]any{"p": map[string]any{"resource": "file://" + dir}},
		"caching":       map[string]any{"inter_query_builtin_value_cache": map[string]any{"named": tokens}},
		"decision_logs": map[string]any{"console": true},
	}
	options := sdk.Options{ID: "bench", ConsoleLogger: toFile(file)}
	if s.Synced {
		settings["decision_logs"], settings["plugins"] = map[string]any{"plugin": synced}, map[string]any{synced: map[string]any{}}
		options.Plugins = map[string]plugins.Factory{synced: durable{file}}
	}
	text, err := json.Marshal(settings)
	if err != nil {
		return nil, err
	}
	options.Config = bytes.NewReader(text)
	return sdk.New(ctx, options)
}

// toFile is OPA's logger for the console, which writes JSON.
func toFile(f *os.File) logging.Logger {
	l := logging.New()
	l.SetOutput(f)
	l.SetFormatter(&logrus.JSONFormatter{}) // as opa run --log-format json
	return l
}
