// Screenshots takes the pictures of the console in the docs. It starts the demo, logs in as
// its operator, and photographs the pages in Debian's Chromium. With -review it takes every
// page as a whole instead, at 390 and 1440 pixels, light and dark, for people to look at.
//
//	go -C e2e run ./screenshots [-review] POWERBOX FOLDER
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// page is a photographed page of a person: the one at a path, or the one that its first matching
// link leads to. " then " separates links of several pages.
type page struct{ who, name, path, link string }

// pages are the photographed pages, by the name of their picture.
var pages = []page{
	{"olivia", "home", "/admin", ""},
	{"olivia", "live", "/admin/live", ""},
	{"olivia", "agents", "/admin/agents", ""},
	{"olivia", "agent", "/admin/agents", `main table a[href^="/admin/agents/"]`},
	{"olivia", "capabilities", "/admin/capabilities", ""},
	{"olivia", "capability", "/admin/capabilities", `main table a[href^="/admin/capabilities/"]`},
	{"olivia", "revoke", "/admin/capabilities", `main table a[href^="/admin/capabilities/"] then main a[href^="/admin/revoke"]`},
	{"olivia", "graph", "/admin/graph", ""},
	{"olivia", "evidence", "/admin/evidence", ""},
	{"olivia", "record", "/admin/evidence?decision=DENY", `main table a[href^="/admin/evidence/"]`},
	{"olivia", "try", "/admin/try", ""},
	{"olivia", "policy", "/admin/policy", ""},
	{"olivia", "advisor", "/admin/advisor", ""},
	{"olivia", "settings", "/admin/settings", ""},
	{"olivia", "sessions", "/sessions", ""},
	{"olivia", "registry", "/registry", ""},
	{"alice", "inbox", "/approve", ""},
	{"alice", "request", "/approve", `main a[href^="/approve/"]`},
	{"alice", "approved", "/approved", ""},
}

// The size of a picture, and the time for all of them.
const (
	width    = 1280
	height   = 800
	patience = 5 * time.Minute
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	review := flag.Bool("review", false, "take every page as a whole, at two widths, light and dark")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "screenshots: want the program and the folder of the pictures")
		os.Exit(2)
	}
	if err := run(ctx, flag.Arg(0), flag.Arg(1), *review); err != nil {
		fmt.Fprintln(os.Stderr, "screenshots:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, program, folder string, review bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	demo := exec.CommandContext(ctx, program, "demo", "--keep")
	demo.Cancel = func() error { return demo.Process.Signal(os.Interrupt) }
	out, err := demo.StdoutPipe()
	if err != nil {
		return err
	}
	if err := demo.Start(); err != nil {
		return err
	}
	defer func() { cancel(); _ = demo.Wait() }() // it was told to end
	base, err := consoleURL(out)
	if err != nil {
		return err
	}
	return photograph(ctx, base, folder, review)
}

var console = regexp.MustCompile(`^\s+(http://[^ ]+)/$`)

// consoleURL reads the output of the demo up to the address of the console.
func consoleURL(out io.Reader) (string, error) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if found := console.FindStringSubmatch(lines.Text()); found != nil {
			go func() { _, _ = io.Copy(io.Discard, out) }() // or the demo would wait for its reader
			return found[1], nil
		}
	}
	return "", errors.New("the demo ended without naming its console")
}

func photograph(ctx context.Context, base, folder string, review bool) error {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.WindowSize(width, height))
	if path, err := exec.LookPath("chromium-headless-shell"); err == nil {
		options = append(options, chromedp.ExecPath(path))
	}
	ctx, cancel := chromedp.NewExecAllocator(ctx, options...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // a developer names the folder, which is for the docs
		return err
	}
	looks := []look{{"", width, "light"}}
	if review {
		looks = []look{{"-390-light", 390, "light"}, {"-390-dark", 390, "dark"}, {"-1440-light", 1440, "light"}, {"-1440-dark", 1440, "dark"}}
	}
	for _, l := range looks {
		if err := l.set(ctx); err != nil {
			return err
		}
		who := ""
		for _, p := range pages {
			if p.who != who {
				if err := login(ctx, base, p.who); err != nil {
					return err
				}
				who = p.who
			}
			picture, err := p.photograph(ctx, base, review)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			if err := os.WriteFile(filepath.Join(folder, "console-"+p.name+l.name+".png"), picture, 0o644); err != nil { //nolint:gosec // it is for the docs
				return err
			}
		}
	}
	return nil
}

// login opens the session of a person.
func login(ctx context.Context, base, who string) error {
	if _, err := chromedp.Call(ctx, network.ClearBrowserCookies, cdp.Empty{}); err != nil {
		return err
	}
	return chromedp.Do(ctx, chromedp.Navigate(base+"/login"), chromedp.Click(chromedp.CSS(`button[name=user][value=`+who+`]`)), chromedp.WaitReady(chromedp.CSS(".rail")))
}

// look is how pages are shown.
type look struct {
	name   string
	width  int64
	scheme string // light or dark
}

func (l look) set(ctx context.Context) error {
	_, err := chromedp.Call(ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: l.width, Height: height, DeviceScaleFactor: 1})
	if err != nil {
		return err
	}
	_, err = chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: l.scheme}}})
	return err
}

// photograph opens the page and takes its picture, of the window or of the whole.
func (p page) photograph(ctx context.Context, base string, whole bool) ([]byte, error) {
	if err := chromedp.Do(ctx, chromedp.Navigate(base+p.path), chromedp.WaitReady(chromedp.CSS("main h1"))); err != nil {
		return nil, err
	}
	if p.link != "" {
		for link := range strings.SplitSeq(p.link, " then ") {
			to, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.querySelector(`+strconv.Quote(link)+`)?.href ?? ""`))
			if err != nil {
				return nil, err
			}
			if to == "" {
				return nil, fmt.Errorf("%s has no link %s", p.path, link)
			}
			if err := chromedp.Do(ctx, chromedp.Navigate(to), chromedp.WaitReady(chromedp.CSS("main h1"))); err != nil {
				return nil, err
			}
		}
	}
	if whole {
		return chromedp.Run(ctx, chromedp.FullScreenshot(100))
	}
	return chromedp.Run(ctx, chromedp.CaptureScreenshot())
}
