// Screenshots takes the pictures of the console in the docs. It starts the demo, logs in as
// its operator, and photographs the pages in Debian's Chromium.
//
//	go -C e2e run ./screenshots POWERBOX FOLDER
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// pages are the photographed pages, by the name of their picture.
var pages = []struct{ name, path string }{
	{"home", "/admin"},
	{"live", "/admin/live"},
	{"graph", "/admin/graph"},
	{"evidence", "/admin/evidence"},
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
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "screenshots: want the program and the folder of the pictures")
		os.Exit(2)
	}
	if err := run(ctx, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "screenshots:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, program, folder string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	demo := exec.CommandContext(ctx, program, "demo", "--keep") //nolint:gosec // a developer names the program
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
	return photograph(ctx, base, folder)
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

func photograph(ctx context.Context, base, folder string) error {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.WindowSize(width, height))
	if path, err := exec.LookPath("chromium-headless-shell"); err == nil {
		options = append(options, chromedp.ExecPath(path))
	}
	ctx, cancel := chromedp.NewExecAllocator(ctx, options...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(base+"/login"), chromedp.Click(chromedp.CSS(`button[name=user][value=olivia]`)), chromedp.WaitReady(chromedp.CSS(".rail"))); err != nil {
		return err
	}
	if _, err := chromedp.Call(ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1}); err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // a developer names the folder, which is for the docs
		return err
	}
	for _, p := range pages {
		if err := chromedp.Do(ctx, chromedp.Navigate(base+p.path), chromedp.WaitReady(chromedp.CSS("main h1"))); err != nil {
			return fmt.Errorf("%s: %w", p.path, err)
		}
		picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
		if err != nil {
			return fmt.Errorf("%s: %w", p.path, err)
		}
		if err := os.WriteFile(filepath.Join(folder, "console-"+p.name+".png"), picture, 0o644); err != nil { //nolint:gosec // it is for the docs
			return err
		}
	}
	return nil
}
