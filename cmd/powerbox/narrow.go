package main

import (
	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/token"
)

func newNarrow(p *program) *cobra.Command {
	var h holderFlags
	var n holder.Narrowing
	var file, grant, delegate, expires, out string
	cmd := &cobra.Command{
		Use:   "narrow --capability FILE --key FILE",
		Short: "Derive a smaller capability, for yourself or for another key; works offline",
		Long: "Narrow keeps what is named and drops the rest; what is not named at all stays as it is. The result cannot\n" +
			"be passed on unless --depth says how often. What would be wider is refused.",
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
		child, err := p.narrowed(client, parent, delegate, n)
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
