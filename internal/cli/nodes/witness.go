package nodes

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/app/proxy"
	"github.com/powerbox-project/powerbox/internal/app/serve"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/remote/witness"
	"github.com/powerbox-project/powerbox/internal/store/keyring"
)

// defaultWitness is the file that a witness reads unless told otherwise.
const defaultWitness = "witness.yaml"

// witnessTime bounds the reading and answering of one request.
const witnessTime = 10 * time.Second

const witnessLong = `Witness watches the evidence logs of other servers. It keeps the last checkpoint of each log on its disk, and cosigns a new
one only if the log continues from there. A log that was rolled back, rewritten or shown in two versions gets no more
cosignatures. Another party than the operator of the server must run it: three organisations can watch each
other. It speaks C2SP tlog-witness. Its configuration is in docs/how-to/witness.md.`

func newWitness(p *cli.Program) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:     "witness",
		Short:   "Run a witness that cosigns the checkpoints of evidence logs",
		Example: "  powerbox witness -c witness.yaml",
		Long:    witnessLong, Args: cobra.NoArgs,
	}
	cmd.PersistentFlags().StringVarP(&file, "config", "c", defaultWitness, "configuration `file`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := loadWitness(file)
		if err != nil {
			return err
		}
		log := slog.New(slog.NewJSONHandler(p.Stderr, nil))
		b, key, err := openWitness(p, c)
		if err != nil {
			return err
		}
		listener, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", c.Listen)
		if err != nil {
			return errors.Join(fmt.Errorf("listen: %w; stop the program that uses the address, or correct listen in the configuration", err), b.Close())
		}
		log.InfoContext(cmd.Context(), "watching", slog.String("listen", listener.Addr().String()), slog.String("key", key.String()), slog.Int("logs", len(c.Logs)))
		return errors.Join(serve.Run(cmd.Context(), listener, http.TimeoutHandler(witness.Handler(b, log), witnessTime, "too slow")), b.Close())
	}
	cmd.AddCommand(&cobra.Command{
		Use: "key", Short: "Print the public key of the witness",
		Example: "  powerbox witness key -c witness.yaml",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c, err := loadWitness(file)
			if err != nil {
				return err
			}
			cosigner, err := witnessKey(c)
			if err != nil {
				return err
			}
			cli.Printf(p.Stdout, "%s\n", cosigner.Key())
			return nil
		},
	})
	return cmd
}

// witnessKey makes or reads the key, behind the book of what it has cosigned.
func witnessKey(c *config.WitnessFile) (evidence.Cosigner, error) {
	passphrase, err := proxy.ReadPassphrase(string(c.PassphraseFile))
	if err != nil {
		return evidence.Cosigner{}, fmt.Errorf("passphrase_file: %w", err)
	}
	ring, err := keyring.Open(filepath.Join(string(c.Directory), "keys"), rand.Reader, passphrase)
	if err != nil {
		return evidence.Cosigner{}, err
	}
	used, err := ring.HasWitness()
	begun := used
	if err == nil && !used {
		begun, err = witness.Begun(string(c.Directory))
	}
	switch {
	case err != nil:
	case begun:
		ring.Advice = func(string) string {
			return "if it cannot be restored, begin a witness in an empty directory, and tell the logs and their verifiers its key"
		}
		err = ring.Expect(map[string]string{"witness.secret": ""})
	default:
		err = witness.Begin(string(c.Directory))
	}
	if err != nil {
		return evidence.Cosigner{}, err
	}
	return ring.Witness(c.Name)
}

func openWitness(p *cli.Program, c *config.WitnessFile) (*witness.Book, evidence.WitnessKey, error) {
	cosigner, err := witnessKey(c)
	if err != nil {
		return nil, evidence.WitnessKey{}, err
	}
	logs := map[string][]note.Verifier{}
	for i, log := range c.Logs {
		for j, text := range log.Keys {
			key, err := note.NewVerifier(text)
			if err != nil {
				return nil, evidence.WitnessKey{}, fmt.Errorf("logs[%d].keys[%d]: %w; want a key from checkpoint_keys of powerbox evidence trust", i, j, err)
			}
			logs[log.Origin] = append(logs[log.Origin], key)
		}
	}
	b, err := witness.Open(witness.BookConfig{Directory: string(c.Directory), Cosigner: cosigner, Logs: logs, Now: p.Now})
	return b, cosigner.Key(), err
}

// loadWitness reads the configuration of a witness. A file that is not there is named with the
// page that says what to write.
func loadWitness(file string) (*config.WitnessFile, error) {
	c, err := config.LoadWitness(file, os.ReadFile)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w; name it with -c, or write it: docs/how-to/witness.md", err)
	}
	return c, err
}
