package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// target is a system that a release is built for.
type target struct{ os, arch string }

func (t target) String() string { return t.os + "/" + t.arch }

// targets are the systems of a release, in the order in which they are built.
var targets = []target{
	{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"},
}

// programs are the commands of an archive.
var programs = []string{"powerbox", "powerbox-gateway"}

// choose reads a list of targets; all of them for none.
func choose(list string) ([]target, error) {
	if list == "" {
		return targets, nil
	}
	var chosen []target
	for name := range strings.SplitSeq(list, ",") {
		n := slices.IndexFunc(targets, func(t target) bool { return t.String() == name })
		if n < 0 {
			return nil, fmt.Errorf("-targets: %q is no target; want a list of %v", name, targets)
		}
		chosen = append(chosen, targets[n])
	}
	return chosen, nil
}

// file is one file of an artifact.
type file struct {
	name string
	mode int64
	data []byte
}

// target builds everything for one system.
func (r *release) target(ctx context.Context, t target) error {
	var files []file
	for _, name := range programs {
		data, err := r.build(ctx, t, name)
		if err != nil {
			return err
		}
		if t.os == "windows" {
			name += ".exe"
		}
		files = append(files, file{name, 0o755, data})
	}
	if err := r.materials(t, files); err != nil {
		return err
	}
	if t.os == "linux" {
		if err := r.packages(t, files); err != nil {
			return err
		}
		for _, f := range files {
			if err := r.image(t, f); err != nil {
				return err
			}
		}
	}
	return r.archive(t, files)
}

// build builds a program without cgo, symbols and paths of this machine.
func (r *release) build(ctx context.Context, t target, name string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "dist")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	out := filepath.Join(dir, name)
	const of = "github.com/powerbox-project/powerbox/internal/version"
	flags := fmt.Sprintf("-s -w -buildid= -X %s.commit=%s -X %s.date=%s", of, r.commit, of, r.date.Format(time.RFC3339))
	// The tag leaves the trace pages of gRPC out, and with them html/template.
	cmd := exec.CommandContext(ctx, "go", "build", "-tags", "grpcnotrace", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", flags, "-o", out, "./cmd/"+name)
	cmd.Dir = r.root
	// Settings of this machine that would change the bytes have no say.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+t.os, "GOARCH="+t.arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=", "GOWORK=off", "GOFIPS140=off")
	if said, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build %s: %w\n%s", name, err, said)
	}
	return os.ReadFile(out)
}

// name is how artifacts for a target are called.
func (r *release) name(t target) string { return r.named("powerbox", t) }

// named is how artifacts of one program are called.
func (r *release) named(program string, t target) string {
	return program + "_" + r.version + "_" + t.os + "_" + t.arch
}

// archive packs the programs with license and README: a zip for Windows, else a tar.gz.
func (r *release) archive(t target, files []file) error {
	for _, name := range []string{"LICENSE", "README.md"} {
		data, err := os.ReadFile(filepath.Join(r.root, name))
		if err != nil {
			return err
		}
		files = append(files, file{name, 0o644, data})
	}
	if t.os == "windows" {
		return r.zip(r.name(t), files)
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(z)
	for _, f := range files {
		h := &tar.Header{Name: path.Join(r.name(t), f.name), Mode: f.mode, Size: int64(len(f.data)), ModTime: r.date, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := w.Write(f.data); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, r.name(t)+".tar.gz"), b.Bytes(), 0o644)
}

func (r *release) zip(name string, files []file) error {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		h := &zip.FileHeader{Name: path.Join(name, f.name), Method: zip.Deflate, Modified: r.date}
		h.SetMode(os.FileMode(f.mode))
		in, err := w.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := in.Write(f.data); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, name+".zip"), b.Bytes(), 0o644)
}
