package design

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/agentcard"
	"github.com/powerbox-project/powerbox/internal/cli"
)

func newCardSign(p *cli.Program) *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use:   "sign CARD --key FILE",
		Short: "Sign an agent card, and print it",
		Long: "The signature replaces all earlier ones (A2A 1.0, section 8.4). It is a JWS over the canonical form of the card\n" +
			"(RFC 8785). Values are not changed. SDKs disagree whether empty members of extension params count: if it matters,\n" +
			"the card is signed in both forms. A signature never covers members that A2A does not define, for example features among\n" +
			"the capabilities. Declare those in the contract extension.",
		Args:    cobra.ExactArgs(1),
		Example: "  powerbox keys new card.jwk\n  powerbox card sign agent-card.json --key card.jwk > signed.json\n  powerbox keys public card.jwk > card-keys.json",
	}
	cmd.Flags().StringVar(&key, "key", "", "`file` with the private key, from powerbox keys new (required)")
	cli.Required(cmd, "key")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		raw, err := ReadCard(cmd.Context(), p, args[0], CardSource{})
		if err != nil {
			return err
		}
		signer, err := p.ReadPrivateKey(key)
		if err != nil {
			return err
		}
		if _, err := agentcard.Parse(raw); err != nil {
			return cli.Invalid(fmt.Errorf("not signed: %w", err))
		}
		signed, err := agentcard.Sign(raw, signer)
		if err != nil {
			return cli.Invalid(fmt.Errorf("not signed: %w", err))
		}
		cli.Document(p.Stdout, signed)
		return nil
	}
	return cmd
}

// verifiedJSON is the stable form of a signature that is good.
type verifiedJSON struct {
	Verified bool `json:"verified"`
	agentcard.Signature
	Digest string `json:"card_digest"`
	Reason string `json:"reason,omitempty"`
}

func newCardVerify(p *cli.Program) *cobra.Command {
	var keys string
	var covered bool
	var from CardSource
	cmd := &cobra.Command{
		Use:     "verify CARD --keys JWKS",
		Short:   "Verify the signatures of a card against pinned keys",
		Example: "  powerbox card verify signed.json --keys card-keys.json",
		Long: "Only the keys of the file count. Key URLs and keys inside the card are ignored. With --covered the signed content is\n" +
			"printed in canonical form: all other parts of the card are unsigned. Verify exits with 4 if no signature is valid.",
		Args: cobra.ExactArgs(1),
	}
	output := cli.OutputFlag(cmd)
	cmd.Flags().StringVar(&keys, "keys", "", "`file` with the keys, a JWK Set or one JWK (required)")
	cmd.Flags().BoolVar(&covered, "covered", false, "print the signed content")
	from.add(cmd)
	cli.Required(cmd, "keys")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		pinned, err := readCardKeys(p, keys)
		if err != nil {
			return err
		}
		raw, err := ReadCard(cmd.Context(), p, args[0], from)
		if err != nil {
			return err
		}
		card, _ := agentcard.Lint(raw, false)
		s, err := agentcard.Verify(raw, pinned)
		switch {
		case err != nil && *output == "json":
			if err := p.PrintJSON(verifiedJSON{Digest: card.Digest(), Reason: err.Error(), Signature: agentcard.Signature{Index: -1}}); err != nil {
				return err
			}
			return cli.Exit(cli.ExitInvalid, nil)
		case err != nil:
			return cli.Invalid(err)
		case covered:
			cli.Document(p.Stdout, s.Card)
		case *output == "json":
			return p.PrintJSON(verifiedJSON{Verified: true, Signature: s, Digest: card.Digest()})
		default:
			cli.Printf(p.Stdout, "verified: signature %d, %s by key %s\ndigest: %s\n", s.Index, s.Algorithm, s.KeyID, card.Digest())
		}
		return nil
	}
	return cmd
}

func readCardKeys(p *cli.Program, name string) (agentcard.Keys, error) {
	data, err := p.ReadFile(name)
	if err != nil {
		return agentcard.Keys{}, err
	}
	keys, err := agentcard.ParseKeys(data)
	if err != nil {
		return keys, cli.Invalid(fmt.Errorf("%s: %w", name, err))
	}
	return keys, nil
}

// signedCard reads a card that can be relied on. With keys it is what one of them
// signed, and nothing else.
func signedCard(raw []byte, keys agentcard.Keys) (agentcard.Card, error) {
	if !keys.IsZero() {
		s, err := agentcard.Verify(raw, keys)
		if err != nil {
			return agentcard.Card{}, err
		}
		raw = s.Card
	}
	card, problems := agentcard.Lint(raw, false)
	if len(problems) > 0 && problems[0].Code == agentcard.CodeUnreadable {
		return card, errors.New(problems[0].Message)
	}
	return card, nil
}
