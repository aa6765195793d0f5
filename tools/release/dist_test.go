package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	spdx "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
	"github.com/spdx/tools-golang/spdxlib"
)

var (
	linux   = target{"linux", "amd64"}
	windows = target{"windows", "amd64"}
)

// standIn is a small program that links a module. It stands for the product, which takes
// minutes to build for every system.
var standIn = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "standin")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	out := filepath.Join(dir, "standin")
	if said, err := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", out, "./standin").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, said)
	}
	return os.ReadFile(out)
})

// made is a folder with everything that a release has of one program.
func made(t *testing.T, root string) *release {
	t.Helper()
	root, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	r := &release{root: root, out: t.TempDir(), version: "0.1.0", commit: strings.Repeat("ab", 20), date: time.Unix(1_790_000_000, 0).UTC()}
	program, err := standIn()
	if err != nil {
		t.Fatal(err)
	}
	files := make([]file, len(programs))
	for n, name := range programs {
		files[n] = file{name, 0o755, program}
	}
	if err := r.materials(linux, files); err != nil {
		t.Fatal(err)
	}
	if err := r.packages(linux, files); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := r.image(linux, f); err != nil {
			t.Fatal(err)
		}
	}
	for _, of := range append(slices.Clone(targets[:4]), windows) {
		if err := r.archive(of, files); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.formula(targets); err != nil {
		t.Fatal(err)
	}
	if err := r.sums(); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *release) read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(r.out, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// copied is the tree as far as a release reads it, in another folder and with other times.
func copied(t *testing.T) string {
	t.Helper()
	to := t.TempDir()
	for _, name := range []string{"LICENSE", "README.md", "deploy/packages", "deploy/systemd"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), "cp", "-R", filepath.Join("../..", name), filepath.Join(to, name)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return to
}

func TestTwoFoldersGiveTheSameBytes(t *testing.T) {
	one, two := made(t, "../.."), made(t, copied(t))
	sums := string(one.read(t, "SHA256SUMS"))
	if other := string(two.read(t, "SHA256SUMS")); sums != other {
		t.Errorf("two builds differ:\n%s\n%s", sums, other)
	}
	if n := strings.Count(sums, "\n"); n != 12 {
		t.Errorf("%d artifacts:\n%s", n, sums)
	}
	check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "SHA256SUMS")
	check.Dir = one.out
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("sha256sum: %v\n%s", err, out)
	}
}

func TestMaterialsAreReadByTheirOwnLibraries(t *testing.T) {
	r := made(t, "../..")
	doc, err := spdx.Read(bytes.NewReader(r.read(t, r.name(linux)+".spdx.json")))
	if err != nil {
		t.Fatal(err)
	}
	if err := spdxlib.ValidateDocument(doc); err != nil {
		t.Error(err)
	}
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(r.read(t, r.name(linux)+".cdx.json")), cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	// These are the modules of the stand-in.
	for _, want := range []string{"std", "github.com/google/uuid"} {
		if !slices.ContainsFunc(doc.Packages, func(p *v2_3.Package) bool { return p.PackageName == want }) {
			t.Errorf("the SPDX document lacks %s", want)
		}
		if !slices.ContainsFunc(*bom.Components, func(c cyclonedx.Component) bool { return c.Name == want && c.PackageURL != "" }) {
			t.Errorf("the CycloneDX document lacks %s", want)
		}
	}
}

func TestImageIsValidAndUnprivileged(t *testing.T) {
	r := made(t, "../..")
	for _, program := range programs {
		t.Run(program, func(t *testing.T) { imageIsValid(t, r, program) })
	}
}

func imageIsValid(t *testing.T, r *release, program string) {
	dir := t.TempDir()
	in := tar.NewReader(bytes.NewReader(r.read(t, r.named(program, linux)+".oci.tar")))
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, h.Name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("%+v, %v", manifest, err)
	}
	img, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	c, err := img.ConfigFile()
	if err != nil || c.Config.User != "65532:65532" || !slices.Equal(c.Config.Entrypoint, []string{"/usr/local/bin/" + program}) || len(c.Config.Cmd) == 0 || c.Architecture != "amd64" || !c.Created.Time.Equal(r.date) {
		t.Errorf("%+v, %v", c, err)
	}
}

// Debian's own tools read the package, and install it into a folder of its own.
func TestPackageForDebianInstalls(t *testing.T) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Fatal("this test needs dpkg-deb (Debian: apt-get install dpkg): ", err)
	}
	r := made(t, "../..")
	deb := filepath.Join(r.out, r.name(linux)+".deb")
	say := func(name string, args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	about := say("dpkg-deb", "-I", deb)
	for _, want := range []string{"Package: powerbox\n", "Version: 0.1.0\n", "Architecture: amd64\n", "postinst", "prerm"} {
		if !strings.Contains(about, want) {
			t.Errorf("the package does not say %q:\n%s", want, about)
		}
	}
	root := t.TempDir()
	say("dpkg-deb", "-x", deb, root)
	unit := string(must(os.ReadFile(filepath.Join(root, "usr/lib/systemd/system/powerbox.service"))))
	for _, want := range []string{"ExecStart=/usr/bin/powerbox serve ", "\nUser=powerbox\n"} {
		if !strings.Contains(unit, want) {
			t.Errorf("the unit lacks %q", want)
		}
	}
	if got := must(os.ReadFile(filepath.Join(root, "usr/bin/powerbox"))); !bytes.Equal(got, must(standIn())) {
		t.Error("the program in the package is another one")
	}
	for _, name := range []string{"usr/lib/sysusers.d/powerbox.conf", "usr/share/doc/powerbox/examples/powerbox.yaml", "etc/powerbox"} {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Error(err)
		}
	}
	for _, script := range []string{"postinstall.sh", "preremove.sh"} {
		say("sh", "-n", filepath.Join("../../deploy/packages", script))
	}
}

func TestFormulaNamesTheArchives(t *testing.T) {
	r := made(t, "../..")
	text := string(r.read(t, "powerbox.rb"))
	for _, of := range targets[:4] {
		name := r.name(of) + ".tar.gz"
		if !strings.Contains(text, "/v0.1.0/"+name+`"`) || !strings.Contains(text, `sha256 "`+digest(r.read(t, name))+`"`) {
			t.Errorf("the formula does not name %s with its checksum:\n%s", name, text)
		}
	}
}

func TestAWrongTargetIsNamed(t *testing.T) {
	if _, err := choose("linux/amd64,plan9/386"); err == nil || !strings.Contains(err.Error(), `"plan9/386" is no target`) {
		t.Errorf("%v", err)
	}
}

func must(data []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return data
}
