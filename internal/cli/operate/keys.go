package operate

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/internal/app"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/filemode"
	"github.com/powerbox-project/powerbox/internal/store/keyring"
	"github.com/powerbox-project/powerbox/token"
)

func newKeys(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "keys",
		Short:   "List and rotate server keys, and create keys for holders",
		Example: "  powerbox keys list",
	}
	cmd.AddCommand(newKeysList(p), newKeysRotate(p), newKeysReplace(p), newKeysNew(p), newKeysInstall(p), newKeysPublic(p), newKeysThumbprint(p))
	return cmd
}

// KeyStatus is one key file, without its content.
type KeyStatus struct {
	Name       string `json:"name"`
	File       string `json:"file"`
	Mode       string `json:"mode"`
	Thumbprint string `json:"thumbprint,omitempty"` // RFC 7638, of the public key
	Agent      string `json:"agent,omitempty"`      // whose issuing key it is
	State      string `json:"state"`                // in use, accepted or ended
	Until      string `json:"until,omitempty"`      // when it ends or has ended
	Days       int    `json:"days"`                 // since its file was made
	Where      string `json:"where"`                // file, encrypted file, or the keeper and its reference
	Problem    string `json:"problem,omitempty"`
}

func newKeysList(p *cli.Program) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the files of the server's keys, without the keys",
		Example: "  powerbox keys list",
	}
	cmd.Flags().StringVarP(&file, "config", "c", cli.DefaultConfig, "configuration `file`")
	output := cli.OutputFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		c, err := p.LoadConfig(file)
		if err != nil {
			return err
		}
		keys, err := ListKeys(filepath.Join(string(c.Issuer.Directory), "keys"), p.Now())
		if err != nil {
			return err
		}
		if *output == "json" {
			return p.PrintJSON(keys)
		}
		w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
		cli.Printf(w, "KEY\tSTATE\tDAYS\tMODE\tTHUMBPRINT\tWHERE\tFILE\n")
		for _, k := range keys {
			state := k.State
			if k.Until != "" {
				state += " until " + k.Until
			}
			cli.Printf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\n", k.Name, state, k.Days, k.Mode, k.Thumbprint, k.Where, k.File)
		}
		return w.Flush()
	}
	return cmd
}

// ListKeys describes the key files of a directory, without making any.
func ListKeys(dir string, now time.Time) ([]KeyStatus, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("there is no %s yet; powerbox serve makes it", dir)
	}
	if err != nil {
		return nil, err
	}
	keys := []KeyStatus{}
	for _, e := range entries {
		name, isKey := strings.CutSuffix(e.Name(), ".jwk")
		if !isKey {
			if name, isKey = strings.CutSuffix(e.Name(), ".secret"); !isKey {
				continue
			}
		}
		k := KeyStatus{Name: name, File: filepath.Join(dir, e.Name()), State: "in use"}
		k.Agent, _ = strings.CutPrefix(name, "agent-")
		if k.Agent == name {
			k.Agent = ""
		}
		if agent, until, old := keyring.SplitOld(e.Name()); old {
			k.Agent, k.Until, k.State = agent, until.Format(time.RFC3339), "accepted"
			if !until.After(now) {
				k.State = "ended"
			}
		}
		k.describe(now)
		keys = append(keys, k)
	}
	return keys, nil
}

func (k *KeyStatus) describe(now time.Time) {
	info, err := os.Stat(k.File)
	if err != nil {
		k.Problem = err.Error()
		return
	}
	k.Mode, k.Days = fmt.Sprintf("%04o", info.Mode().Perm()), int(now.Sub(info.ModTime()).Hours()/24)
	if filemode.Others(info.Mode()) != 0 {
		k.Problem = fmt.Sprintf("others can read it; run chmod 600 %s, and replace the key if it was seen", k.File)
		return
	}
	if k.Where, err = whereKept(k.File); err != nil {
		k.Problem = err.Error()
		return
	}
	if k.Thumbprint, err = PublicThumbprint(k.Name, k.File); err != nil {
		k.Problem = "it cannot be read as a key: " + err.Error()
	}
}

// whereKept says where the key of a file is.
func whereKept(file string) (string, error) {
	data, err := os.ReadFile(file)
	if where, _, away := keyring.Where(data); away {
		return where, err
	}
	if keyring.IsSealed(data) {
		return "encrypted file", err
	}
	return "file", err
}

// SealedKey stands for the thumbprint of a key that is encrypted.
const SealedKey = "encrypted"

// PublicThumbprint is that of the public half, "" for a secret that has none.
func PublicThumbprint(name, file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	if _, thumbprint, away := keyring.Where(data); away {
		return thumbprint, nil
	}
	if keyring.IsSealed(data) {
		return SealedKey, nil
	}
	if strings.HasSuffix(file, ".jwk") {
		key, err := token.ParsePrivateKey(data)
		if err != nil {
			return "", err
		}
		return key.Public().Thumbprint(), nil
	}
	seed, err := base64.RawURLEncoding.DecodeString(strings.TrimSpace(string(data)))
	if err != nil || len(seed) != ed25519.SeedSize {
		return "", errors.New("want 32 bytes in base64url")
	}
	if algorithm, ok := keyring.EvidenceFile(filepath.Base(file)); ok {
		public, err := keyring.EvidenceKey(algorithm, seed, app.RecorderID)
		return public.ID, err
	}
	if name != "checkpoint" && name != "feed" {
		return "", nil
	}
	public, err := evidence.NewKey(ed25519.NewKeyFromSeed(seed).Public(), app.RecorderID)
	return public.ID, err
}

func newKeysNew(p *cli.Program) *cobra.Command {
	var algorithm string
	cmd := &cobra.Command{
		Use:   "new FILE",
		Short: "Create a holder's key, and print its thumbprint",
		Long:  "New writes the key to a new file with mode 0600.",
		Example: "  powerbox keys new holder.jwk\n" +
			"  powerbox keys new holder.jwk --algorithm ES256",
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&algorithm, "algorithm", "Ed25519", "Ed25519 or ES256")
	cli.Values(cmd, "algorithm", "Ed25519", "ES256")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		a, ok := map[string]token.Algorithm{"Ed25519": token.Ed25519, "ES256": token.ES256}[algorithm]
		if !ok {
			return cli.Usage(fmt.Errorf("--algorithm is %q; want Ed25519 or ES256", algorithm))
		}
		key, err := holder.NewKeyFile(args[0], a, rand.Reader)
		if errors.Is(err, os.ErrExist) {
			return fmt.Errorf("%w; name another file, because an existing key is never replaced", err)
		}
		if err != nil {
			return err
		}
		cli.Printf(p.Stdout, "%s\n", key.Public().Thumbprint())
		return nil
	}
	return cmd
}

func newKeysThumbprint(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:     "thumbprint FILE",
		Short:   "Print the thumbprint of a holder's key, for identity.callers",
		Example: "  powerbox keys thumbprint holder.jwk",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			key, err := cli.LoadKey(args[0])
			if err != nil {
				return err
			}
			cli.Printf(p.Stdout, "%s\n", key.Public().Thumbprint())
			return nil
		},
	}
}

func newKeysPublic(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:     "public FILE",
		Short:   "Print the public JWK of a holder's key",
		Example: "  powerbox keys public holder.jwk > holder-public.jwk",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			key, err := cli.LoadKey(args[0])
			if err != nil {
				return err
			}
			cli.Printf(p.Stdout, "%s\n", key.Public().JWK().String())
			return nil
		},
	}
}
