package app

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/policy"
	"github.com/powerbox-project/powerbox/internal/web/api"
)

// PolicyTables finds the tables of tests beside the policies of a configuration.
func PolicyTables(c *config.Config) ([]string, error) {
	files, err := config.Files(c.Policies)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, f := range files {
		found, err := filepath.Glob(filepath.Join(filepath.Dir(f), "*_test.yaml"))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// Operations implements [policy.Tested].
func (f *InForce) Operations(agent string) []string {
	var all []string
	for _, o := range f.config.Offers[agent] {
		for _, op := range f.config.OperationsOf(agent, o) {
			all = append(all, issuer.Qualify(agent, o.ID, op))
		}
	}
	return all
}

// Resource implements [policy.Tested].
func (f *InForce) Resource(agent, id string) (*catalogue.Item, error) {
	for _, a := range f.agents {
		if a.ID != agent || id == "" {
			continue
		}
		for i := range a.Resources {
			if a.Resources[i].ID == id {
				return &a.Resources[i], nil
			}
		}
		return nil, fmt.Errorf("the catalogue of agent %q has no resource %q", agent, id)
	}
	return nil, nil //nolint:nilnil // the agent itself
}

// policyTests runs the tables beside the policies on the policies in force. A table that
// cannot be read is a result, too.
func (i *Instance) policyTests() (api.PolicyTests, error) {
	now := i.Force.Now.Load()
	files, err := PolicyTables(now.config)
	out := api.PolicyTests{Digest: now.engine.Digest(), Tests: []api.PolicyTest{}}
	for _, file := range files {
		data, err := os.ReadFile(file)
		var tests []policy.Test
		if err == nil {
			tests, err = policy.ReadTests(data)
		}
		if err != nil {
			out.Tests = append(out.Tests, api.PolicyTest{File: file, Problem: "the table cannot be read: " + strings.TrimLeft(err.Error(), ":, ")})
		}
		for _, t := range tests {
			one := api.PolicyTest{File: file, Name: t.Name}
			got, err := t.Run(now.engine, now)
			if err != nil {
				one.Problem = err.Error()
			}
			one.Passed, one.Want, one.Got, one.Policies = err == nil && got.Passed(), got.Want, got.Got, got.Policies
			out.Tests = append(out.Tests, one)
		}
	}
	return out, err
}
