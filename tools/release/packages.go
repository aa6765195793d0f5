package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers itself
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers itself
)

// packages writes a package for Debian and one for RPM, as deploy/packages/nfpm.yaml has them.
func (r *release) packages(t target, binaries []file) error {
	dir, err := os.MkdirTemp("", "dist")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for _, b := range binaries {
		if err := os.WriteFile(filepath.Join(dir, b.name), b.data, 0o755); err != nil {
			return err
		}
	}
	if err := r.units(dir); err != nil {
		return err
	}
	for _, format := range []string{"deb", "rpm"} {
		if err := r.pack(format, t, dir); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) pack(format string, t target, dir string) error {
	values := map[string]string{"ARCH": t.arch, "VERSION": r.version, "BUILD": dir, "ROOT": r.root}
	c, err := nfpm.ParseFileWithEnvMapping(filepath.Join(r.root, "deploy", "packages", "nfpm.yaml"), func(name string) string { return values[name] })
	if err != nil {
		return err
	}
	info, err := c.Get(format)
	if err != nil {
		return err
	}
	info.MTime = r.date
	info.Scripts.PostInstall = filepath.Join(r.root, "deploy", "packages", "postinstall.sh")
	info.Scripts.PreRemove = filepath.Join(r.root, "deploy", "packages", "preremove.sh")
	for _, content := range info.Contents {
		if content.FileInfo == nil {
			content.FileInfo = &files.ContentFileInfo{}
		}
		content.FileInfo.MTime = r.date
	}
	info = nfpm.WithDefaults(info)
	if err := nfpm.Validate(info); err != nil {
		return err
	}
	p, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := p.Package(info, &out); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, r.name(t)+"."+format), out.Bytes(), 0o644)
}

var program = regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/powerbox `)

// units writes the units of deploy/systemd as packages have them: the program is in
// /usr/bin, and the user is the one that the package makes.
func (r *release) units(dir string) error {
	names, err := filepath.Glob(filepath.Join(r.root, "deploy", "systemd", "*.service"))
	if err != nil || len(names) == 0 {
		return errors.Join(err, errors.New("deploy/systemd has no units"))
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if !program.Match(data) {
			return errors.New(name + " starts no /usr/local/bin/powerbox")
		}
		data = program.ReplaceAll(data, []byte("ExecStart=/usr/bin/powerbox "))
		data = bytes.Replace(data, []byte("DynamicUser=yes\n"), []byte("DynamicUser=yes\nUser=powerbox\nGroup=powerbox\n"), 1)
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
