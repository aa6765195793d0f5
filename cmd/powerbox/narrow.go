package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/token"
)

func newNarrow(p *program) *cobra.Command {
	var h holderFlags
	var n holder.Narrowing
	var s scopeFlags
	var file, grant, delegate, expires, out string
	cmd := &cobra.Command{
		Use:   "narrow --capability FILE --key FILE",
		Short: "Derive a smaller capability, for yourself or for another key; works offline",
		Long: "Narrow keeps what is named and drops the rest; what is not named at all stays as it is. The result cannot\n" +
			"be passed on unless --depth says how often. What would be wider is refused.\n" +
			"A scope token is passed on by a link, to the key in the file of --delegate or to --delegate-id, with the\n" +
			"scopes of --scope; how often is for its issuer to say.",
	}
	output := outputFlag(cmd)
	f := cmd.Flags()
	f.StringVar(&file, "capability", "", "capability `file` to narrow (required)")
	f.StringVar(&grant, "grant", "", "which one, where the file has several")
	f.StringSliceVar(&n.Handles, "handle", nil, "handle to keep; may be repeated")
	f.StringSliceVar(&n.Operations, "operation", nil, "operation to keep; may be repeated")
	f.StringVar(&expires, "expires", "", "how long, such as 5m, or until when")
	f.IntVar(&n.Depth, "depth", 0, "how often the result may be passed on")
	f.StringVar(&delegate, "delegate", "", "`file` with the public JWK of the next holder; the same holder where absent")
	f.StringVar(&s.to, "delegate-id", "", "`identifier` of the next holder of a scope token, such as client:reader")
	f.StringSliceVar(&s.scopes, "scope", nil, "scope to pass on of a scope token; may be repeated, all where absent")
	cmd.MarkFlagsMutuallyExclusive("delegate", "delegate-id")
	f.StringVar(&out, "out", "", "capability `file` to write, with mode 0600")
	h.add(cmd)
	required(cmd, "capability", "key")
	cmd.RunE = func(*cobra.Command, []string) error {
		client, err := p.holderClient(h)
		if err != nil {
			return err
		}
		held, err := p.readCapabilities(file)
		if err != nil {
			return err
		}
		parent, err := oneOf(held, grant)
		if err != nil {
			return err
		}
		if n.Expires, err = expiry(expires, p.now()); err != nil {
			return err
		}
		var child holder.Capability
		if parent.ScopeToken != "" {
			child, err = p.linked(client, parent, delegate, n, s)
		} else if s.to != "" || s.scopes != nil {
			err = usage(errors.New("--delegate-id and --scope are for scope tokens; this capability has a chain"))
		} else {
			child, err = p.narrowed(client, parent, delegate, n)
		}
		if err != nil {
			return err
		}
		return p.printCapabilities([]holder.Capability{child}, out, *output)
	}
	return cmd
}

func (p *program) narrowed(client *holder.Client, parent holder.Capability, delegate string, n holder.Narrowing) (holder.Capability, error) {
	if delegate == "" {
		return client.Narrow(parent, n)
	}
	var to token.PublicKey
	to, err := p.readPublicKey(delegate)
	if err != nil {
		return holder.Capability{}, err
	}
	return client.Delegate(parent, to, n)
}

// scopeFlags are what a scope token is passed on with.
type scopeFlags struct {
	to     string
	scopes []string
}

// linked passes a scope token on, offline.
func (p *program) linked(client *holder.Client, parent holder.Capability, delegate string, n holder.Narrowing, s scopeFlags) (holder.Capability, error) {
	if n.Handles != nil || n.Operations != nil || n.Depth != 0 {
		return holder.Capability{}, usage(errors.New("--handle, --operation and --depth are for chains; a scope token is narrowed with --scope and --expires"))
	}
	switch {
	case delegate != "":
		data, err := p.readFile(delegate)
		if err != nil {
			return holder.Capability{}, err
		}
		key, err := token.ParsePartyKey(data)
		if err != nil {
			return holder.Capability{}, invalid(err)
		}
		s.to = key.DID()
	case s.to == "":
		return holder.Capability{}, usage(errors.New("a scope token is narrowed by passing it on; name the next holder with --delegate or --delegate-id"))
	}
	return client.Link(parent, holder.Link{To: s.to, Scopes: s.scopes, Expires: n.Expires})
}
