package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/bench/internal/built"
	"github.com/powerbox-project/powerbox/bench/internal/command"
)

func main() { command.Main("hostile", run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := command.Flags("hostile", stderr)
	only := flags.String("only", "", "send only the requests that have this in their name")
	powerbox := command.Powerbox(flags)
	section := command.Writes(flags, section)
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir, remove, err := command.Folder("", "hostile")
	if err != nil {
		return err
	}
	defer remove(&err)
	if *powerbox, err = built.Binary(ctx, *powerbox, dir); err != nil {
		return err
	}
	rows, err := measureAll(ctx, dir, *powerbox, *only, stderr)
	if err != nil {
		return err
	}
	return section.Put(ctx, stdout, func(now time.Time) string { return page(rows, now) })
}

// tolerated is the peak of a row above which the program is started anew for the next
// one, in MiB: memory that it has already would hide what the next one takes.
const tolerated = 2

// measureAll sends every request as every identity.
func measureAll(ctx context.Context, dir, powerbox, only string, progress io.Writer) (rows []measured, err error) {
	t, err := newTown(ctx, dir, powerbox)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	fresh := false
	for _, r := range requests() {
		if !strings.Contains(r.name, only) {
			continue
		}
		for _, who := range identities {
			if r.wrapped != (who.name == asNamed) {
				continue
			}
			if !fresh {
				if err := errors.Join(t.again(ctx), t.warm(ctx)); err != nil {
					return nil, err
				}
			}
			m, err := t.measure(ctx, &r, who)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", r.name, who.name, err)
			}
			fresh = m.peak < tolerated
			rows = append(rows, m)
			fmt.Fprintln(progress, m.row())
		}
	}
	return rows, ctx.Err()
}

// warm sends ordinary calls, so that the measurement does not include the program's first work.
func (t *town) warm(ctx context.Context) error {
	for _, r := range []request{
		argued("ordinary", `"x"`), tools("ordinary", `"a":1`, 0), overGRPC("ordinary", field(2, append(field(1, []byte("m")), field(5, field(1, []byte("x")))...))),
		rest("ordinary", "POST", "/message:send", `{"message":{"role":"ROLE_USER",`+plainMessage+`}}`),
	} {
		for range 5 {
			for _, who := range identities {
				if _, err := t.sender(&r, who).once(ctx); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
