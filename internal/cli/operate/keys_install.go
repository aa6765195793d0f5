package operate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
)

// What a file of a key is called, and how large it can be.
var keyFile = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)

const maxKeyFile = 64 << 10

func newKeysInstall(p *cli.Program) *cobra.Command {
	var config, from string
	cmd := &cobra.Command{
		Use: "install", Short: "Copy keys that another node created into place",
		Long: "Nodes that share a database have the same keys. Install copies the files of a folder, for example a mounted Kubernetes\n" +
			"secret, into keys of issuer.directory with mode 0600. An existing key is never replaced: if it differs, the command fails.",
		Example: "  powerbox keys install --from /run/keys -c powerbox.yaml",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVarP(&config, "config", "c", cli.DefaultConfig, "configuration `file`")
	cmd.Flags().StringVar(&from, "from", "", "`folder` with the keys (required)")
	cmd.RunE = func(*cobra.Command, []string) error {
		if from == "" {
			return cli.Usage(errors.New("--from is missing: the folder with the keys"))
		}
		c, err := p.LoadConfig(config)
		if err != nil {
			return err
		}
		n, err := installKeys(from, filepath.Join(string(c.Issuer.Directory), "keys"))
		if err != nil {
			return err
		}
		cli.Printf(p.Stdout, "%d keys are in place\n", n)
		return nil
	}
	return cmd
}

// installKeys copies the keys of a folder, and returns how many there are. Links are
// followed, since that is how secrets are mounted.
func installKeys(from, to string) (int, error) {
	entries, err := os.ReadDir(from)
	if err != nil {
		return 0, err
	}
	keys := map[string][]byte{}
	for _, e := range entries {
		path := filepath.Join(from, e.Name())
		info, err := os.Stat(path)
		if err != nil {
			return 0, err
		}
		if !keyFile.MatchString(e.Name()) || !info.Mode().IsRegular() {
			continue
		}
		if keys[e.Name()], err = readKeyFile(path); err != nil {
			return 0, err
		}
	}
	if len(keys) == 0 {
		return 0, fmt.Errorf("%s has no keys", from)
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return 0, err
	}
	// First all are compared, so that nothing is half done.
	for name, key := range keys {
		switch there, err := readKeyFile(filepath.Join(to, name)); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return 0, err
		case !bytes.Equal(there, key):
			return 0, fmt.Errorf("%s is another key than that in %s; if it is not used any more, remove it", filepath.Join(to, name), from)
		}
	}
	for name, key := range keys {
		if err := putKeyFile(filepath.Join(to, name), key); err != nil {
			return 0, err
		}
	}
	return len(keys), nil
}

func readKeyFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err == nil && len(data) > maxKeyFile {
		err = fmt.Errorf("%s has more than %d bytes, which no key has", path, maxKeyFile)
	}
	return data, err
}

// putKeyFile writes a key under another name first, so that half of one is never read.
func putKeyFile(path string, key []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // of mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(key)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
