package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/powerbox-project/powerbox/internal/config"
)

// addAgent writes the files of one agent more beside a configuration that is there. That is
// not touched: it is its operator's by now.
func (p *program) addAgent(d draft, force, named bool) error {
	there, err := p.loadConfig(d.out)
	if errors.Is(err, os.ErrNotExist) {
		return usage(fmt.Errorf("there is no %s that an agent could be added to; leave --add out", d.out))
	}
	if err != nil {
		return fmt.Errorf("no agent is added to a configuration that does not load: %w", err)
	}
	if slices.ContainsFunc(there.Agents, func(a config.Agent) bool { return a.ID == d.id }) && !force {
		return usage(fmt.Errorf("%s has an agent %q already; want another --id", d.out, d.id))
	}
	if !named {
		// Nobody is permitted anything by the name of a user that was made up here.
		d.user = ""
		if len(there.Identity.Dev) > 0 {
			d.user = there.Identity.Dev[0].Name
		}
	}
	dir := filepath.Dir(d.out)
	d.base, d.beside = there.Issuer.URL, filepath.Join(dir, "powerbox.d", d.id+".yaml")
	files := []draftFile{
		{d.beside, 0o600, d.yaml()},
		{filepath.Join(dir, "policies", d.id+".cedar"), 0o644, d.cedar()},
		{filepath.Join(dir, "resources", d.id+".yaml"), 0o644, d.catalogue()},
	}
	if err := p.writeFiles(files, force); err != nil {
		return err
	}
	if err := p.joined(d, files); err != nil {
		for _, f := range files {
			if !force {
				err = errors.Join(err, os.Remove(f.name))
			}
		}
		return err
	}
	return p.printDraft(d, files)
}

// joined checks that the configuration loads, and has what was written beside it.
func (p *program) joined(d draft, files []draftFile) error {
	now, err := p.loadConfig(d.out)
	if err != nil {
		return usage(fmt.Errorf("with agent %q the configuration would not load: %w", d.id, err))
	}
	if !slices.ContainsFunc(now.Agents, func(a config.Agent) bool { return a.ID == d.id }) {
		return usage(fmt.Errorf("%s does not include %s; add include: [powerbox.d/*.yaml]", d.out, d.beside))
	}
	policies, err := config.Files(now.Policies)
	if err != nil {
		return err
	}
	if !slices.Contains(policies, files[1].name) {
		return usage(fmt.Errorf("the policies of %s do not have %s; add policies: [policies/*.cedar]", d.out, files[1].name))
	}
	return nil
}
