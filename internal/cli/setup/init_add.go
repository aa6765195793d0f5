package setup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/config"
)

// addAgent writes the files of one agent more beside a configuration that is there. That is
// not touched: it is its operator's by now.
func addAgent(p *cli.Program, d draft, force, named bool) error {
	there, err := p.LoadConfig(d.out)
	if errors.Is(err, os.ErrNotExist) {
		return cli.Usage(fmt.Errorf("there is no %s that an agent could be added to; leave --add out", d.out))
	}
	if err != nil {
		return fmt.Errorf("no agent is added to a configuration that does not load: %w", err)
	}
	if slices.ContainsFunc(there.Agents, func(a config.Agent) bool { return a.ID == d.id }) && !force {
		return cli.Usage(fmt.Errorf("%s has an agent %q already; want another --id", d.out, d.id))
	}
	if !named {
		// The name of an invented user must not permit anything.
		d.user = ""
		if len(there.Identity.Dev) > 0 {
			d.user = there.Identity.Dev[0].Name
		}
	}
	dir := filepath.Dir(d.out)
	for _, a := range there.Agents {
		if a.ID != d.id { // its own file is replaced
			d.gateways = append(d.gateways, a.GatewayURL)
		}
	}
	d.base, d.beside = there.Issuer.URL, filepath.Join(dir, "powerbox.d", d.id+".yaml")
	files := []draftFile{
		{d.beside, 0o600, d.yaml()},
		{filepath.Join(dir, "policies", d.id+".cedar"), 0o644, d.cedar()},
	}
	if err := writeFiles(p, files, force); err != nil {
		return err
	}
	if err := joined(p, d, files); err != nil {
		for _, f := range files {
			if !force {
				err = errors.Join(err, os.Remove(f.name))
			}
		}
		return err
	}
	return printDraft(p, d, files)
}

// joined checks that the configuration loads, and includes the files beside it.
func joined(p *cli.Program, d draft, files []draftFile) error {
	now, err := p.LoadConfig(d.out)
	if err != nil {
		return cli.Usage(fmt.Errorf("with agent %q the configuration would not load: %w", d.id, err))
	}
	if !slices.ContainsFunc(now.Agents, func(a config.Agent) bool { return a.ID == d.id }) {
		return cli.Usage(fmt.Errorf("%s does not include %s; add include: [powerbox.d/*.yaml]", d.out, d.beside))
	}
	policies, err := config.Files(now.Policies)
	if err != nil {
		return err
	}
	if !slices.Contains(policies, files[1].name) {
		return cli.Usage(fmt.Errorf("the policies of %s do not have %s; add policies: [policies/*.cedar]", d.out, files[1].name))
	}
	return nil
}
