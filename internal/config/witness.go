package config

import (
	"fmt"
	"reflect"
	"strings"
)

// WitnessFile is the whole configuration of powerbox witness, a file of its own: a
// witness belongs into other hands than the logs that it watches. The tags are
// those of [Config]; docs/how-to/witness.md has every key.
type WitnessFile struct {
	Name           string       `key:"name" required:"true" format:"log" doc:"Name of the witness in its cosignatures: its URL without the scheme, such as witness.example.org/w1."`
	Listen         string       `key:"listen" default:"127.0.0.1:8710" format:"address" doc:"Address to listen on, host:port, without TLS. Use loopback, or a proxy that terminates TLS."`
	Directory      Path         `key:"directory" default:"powerbox-witness" doc:"Folder of its key (mode 0600) and of the checkpoints that it has cosigned. Never restore it from a backup: start another witness instead."`
	PassphraseFile Path         `key:"passphrase_file" doc:"File with the passphrase that encrypts its key (age). Absent: the key is not encrypted."`
	Logs           []WitnessLog `key:"logs" required:"true" doc:"The logs that it cosigns."`
}

// WitnessLog is one log that is watched.
type WitnessLog struct {
	Origin string   `key:"origin" required:"true" format:"log" doc:"Name of the log, as in evidence.origin of its server."`
	Keys   []string `key:"keys" required:"true" doc:"Keys that may sign its checkpoints: checkpoint_keys of powerbox evidence trust. Each has the origin as its name."`
}

// WitnessTable returns the table of all settings, for docs/how-to/witness.md.
func WitnessTable() []byte {
	return table(reflect.TypeFor[WitnessFile]())
}

// LoadWitness reads the file of powerbox witness, as [LoadAttach] reads its own.
func LoadWitness(path string, read func(string) ([]byte, error)) (*WitnessFile, error) {
	c := new(WitnessFile)
	if err := loadFile(path, read, c); err != nil {
		return nil, err
	}
	return c, nil
}

// check wants each log once, with keys of its name.
func (c *WitnessFile) check(d *decoder) {
	seen := map[string]bool{}
	for i, log := range c.Logs {
		at := fmt.Sprintf("logs[%d]", i)
		if seen[log.Origin] {
			d.place(at+".origin", "%q is there twice; want one entry with all keys", log.Origin)
		}
		seen[log.Origin] = true
		for j, key := range log.Keys {
			if name, _, _ := strings.Cut(key, "+"); name != log.Origin {
				d.place(fmt.Sprintf("%s.keys[%d]", at, j), "the key has the name %q; want one of %q: a key of one log does not speak for another", name, log.Origin)
			}
		}
	}
}
