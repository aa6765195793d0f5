package verify

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/plain"
	"github.com/powerbox-project/powerbox/internal/tile"
)

func newEvidenceTiles(p *cli.Program) *cobra.Command {
	var out string
	var f verifyFlags
	cmd := &cobra.Command{
		Use:   "tiles BUNDLE... --out FOLDER --trust FILE [--seen CHECKPOINT]",
		Short: "Write the log of verified bundles as files of C2SP tiles",
		Example: "  powerbox evidence tiles 2026-11.jsonl --out log --trust trust.json\n" +
			"  powerbox evidence tiles 2026-12.jsonl --out log --trust trust.json --seen 2026-11.end",
		Long: "Tiles verifies bundles and writes their part of the log to a folder, as C2SP tlog-tiles: checkpoint, tile/LEVEL/INDEX and\n" +
			"tile/entries/INDEX, with the bytes that the server serves. Every client of such logs reads the folder, from a disk, a web\n" +
			"server or an object store. The folder continues where it ends: give it the bundle of each period in turn.\n" +
			"Tiles never change, so the folder may be under a lock against changes, except for the file checkpoint.\n" +
			"Entries have the hashes of records and no contents: keep the bundles too.",
		Args: cobra.MinimumNArgs(1),
	}
	f.addBundle(cmd)
	cmd.Flags().StringVar(&out, "out", "", "`folder` to write or to continue")
	_ = cmd.MarkFlagDirname("out")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if out == "" {
			return cli.Usage(errors.New("want --out with the folder to write"))
		}
		trust, err := trustOf(p, f)
		if err != nil {
			return err
		}
		report, err := verifyBundles(cmd.Context(), p, args, trust, verifying{workers: runtime.GOMAXPROCS(0)})
		if err != nil {
			return err
		}
		if len(report.Problems) > 0 {
			return errors.Join(printReport(p, report, "text"), errors.New("nothing is written: the bundle does not verify"))
		}
		if err := os.MkdirAll(out, 0o755); err != nil { //nolint:gosec // the log is public
			return err
		}
		root, err := os.OpenRoot(out)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, root.Close()) }()
		folder, err := tile.Open(root)
		if err != nil {
			return fmt.Errorf("%s: %w", out, err)
		}
		before := folder.Size()
		for _, name := range args {
			if err := writeTiles(p, folder, name); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		cli.Printf(p.Stdout, "%s has %s, %d of them new\n", out, plain.Count(int(folder.Size()), "entry"), folder.Size()-before)
		return nil
	}
	return cmd
}

// writeTiles adds the entries of a bundle that a folder does not have yet, and its checkpoint.
func writeTiles(p *cli.Program, folder *tile.Folder, name string) (err error) {
	signed, err := checkpointOf(p, name)
	if err != nil {
		return err
	}
	end, err := evidence.ReadCheckpoint(signed)
	if err != nil {
		return err
	}
	in, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	at, err := beginning(in)
	switch {
	case err != nil:
		return err
	case at > folder.Size():
		return cli.Invalid(fmt.Errorf("the bundle begins with entry %d, and the folder has %d entries; give the bundles between them first", at, folder.Size()))
	case end.Size < folder.Size():
		return cli.Invalid(fmt.Errorf("the bundle ends with %d entries, and the folder has %d", end.Size, folder.Size()))
	}
	for line, err := range cli.BundleLines(in) {
		if err != nil {
			return err
		}
		sealed, err := evidence.ParseSealed(line.Text)
		if err != nil {
			return line.Wrong(err)
		}
		if at++; at > folder.Size() {
			if err := folder.Append(evidence.Leaf(sealed)); err != nil {
				return err
			}
		}
	}
	return folder.Finish(signed)
}

// beginning returns how many entries are before a bundle, by its first line.
func beginning(in io.ReadSeeker) (int64, error) {
	line, err := bufio.NewReader(in).ReadBytes('\n')
	if err != nil {
		return 0, cli.Invalid(errors.New("the first line is cut off; want a bundle from powerbox evidence export"))
	}
	var header struct {
		From struct {
			Size int64 `json:"size"`
		} `json:"from"`
	}
	_, err = in.Seek(0, io.SeekStart)
	err = errors.Join(json.Unmarshal(line, &header), err)
	return header.From.Size, err
}
