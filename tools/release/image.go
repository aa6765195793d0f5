package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// nonroot is the user of an image, by the number that distroless images use.
const nonroot = 65532

// starts are the commands and the ports of the images, by program.
var starts = map[string]struct {
	command []string
	ports   map[string]struct{}
}{
	"powerbox":         {[]string{"serve", "-c", "/etc/powerbox/powerbox.yaml"}, map[string]struct{}{"8700/tcp": {}, "9464/tcp": {}}},
	"powerbox-gateway": {[]string{"gateway", "--listen", "0.0.0.0:8701"}, map[string]struct{}{"8701/tcp": {}}},
}

// image writes an OCI image as a tar of its layout, as skopeo, podman and crane read it. It
// has one program, the public certificate authorities and a state folder, and no shell.
func (r *release) image(t target, program file) error {
	rootfs, err := r.rootfs(program)
	if err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(rootfs)), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.AppendLayers(base, layer)
	if err != nil {
		return err
	}
	c, err := img.ConfigFile()
	if err != nil {
		return err
	}
	c = c.DeepCopy()
	c.OS, c.Architecture, c.Created = t.os, t.arch, v1.Time{Time: r.date}
	for n := range c.History {
		c.History[n].Created = v1.Time{Time: r.date}
	}
	c.Config = v1.Config{
		User: "65532:65532", WorkingDir: "/var/lib/powerbox", Volumes: map[string]struct{}{"/var/lib/powerbox": {}},
		ExposedPorts: starts[program.name].ports,
		Entrypoint:   []string{"/usr/local/bin/" + program.name}, Cmd: starts[program.name].command,
		Env: []string{"PATH=/usr/local/bin", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
		Labels: map[string]string{
			"org.opencontainers.image.source": home, "org.opencontainers.image.version": r.version, "org.opencontainers.image.revision": r.commit,
			"org.opencontainers.image.created": r.date.Format(time.RFC3339), "org.opencontainers.image.licenses": license,
		},
	}
	if img, err = mutate.ConfigFile(img, c); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "dist")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendImage(img, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": r.version})); err != nil {
		return err
	}
	files, err := tree(dir)
	if err != nil {
		return err
	}
	data, err := r.tar(files)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, r.named(program.name, t)+".oci.tar"), data, 0o644)
}

// rootfs is the one layer.
func (r *release) rootfs(program file) ([]byte, error) {
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		if err := pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	return r.tar([]file{
		{"etc/passwd", 0o644, []byte("nonroot:x:65532:65532:nonroot:/var/lib/powerbox:/sbin/nologin\n")},
		{"etc/group", 0o644, []byte("nonroot:x:65532:\n")},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, roots.Bytes()},
		{"usr/local/bin/" + program.name, 0o755, program.data},
		{"var/lib/powerbox/", 0o700, nil},
	})
}

// tar packs files. A name that ends in a slash is a folder of the image's user.
func (r *release) tar(files []file) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data)), ModTime: r.date, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if f.name[len(f.name)-1] == '/' {
			h.Typeflag, h.Uid, h.Gid = tar.TypeDir, nonroot, nonroot
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// tree reads a folder, in the order of its names.
func tree(dir string) ([]file, error) {
	var files []file
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		files = append(files, file{filepath.ToSlash(name), 0o644, data})
		return err
	})
	slices.SortFunc(files, func(a, b file) int { return bytes.Compare([]byte(a.name), []byte(b.name)) })
	return files, err
}
