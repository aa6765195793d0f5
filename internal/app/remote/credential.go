package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/internal/app/proxy"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/credential"
)

// loadCredential reads the secret for the agent behind. The command of an MCP server gets it
// in its environment, and whatever it answers is searched for it.
func loadCredential(ctx context.Context, o *Options, now func() time.Time) (*credential.Placed, error) {
	if o.Credential == "" {
		return nil, nil //nolint:nilnil // none is no error
	}
	file, err := config.LoadCredential(o.Credential, os.ReadFile)
	if err != nil {
		return nil, err
	}
	source, err := proxy.SourceOf(file.Credential, now)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Credential, err)
	}
	p := &credential.Placed{Source: source}
	if !o.MCP.Exec {
		p.Header, p.Scheme, p.Query = file.Credential.Place()
		return p, nil
	}
	if file.Variable == "" || strings.ContainsAny(file.Variable, "= ") {
		return nil, errors.New("--credential-file: with --mcp-exec, want the name of a variable of the environment under variable")
	}
	secret, err := source.Secret(ctx, "", config.Secret{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Credential, err)
	}
	o.MCP.secret = file.Variable + "=" + secret.Reveal()
	p.Source = credential.Static{Text: secret} // as the command has it
	return p, nil
}
