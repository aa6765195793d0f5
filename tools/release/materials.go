package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
)

const home = "https://github.com/powerbox-project/powerbox"

// materials writes the bills of materials of a target: what the linker put into its programs.
func (r *release) materials(t target, binaries []file) error {
	modules, err := linked(binaries)
	if err != nil {
		return err
	}
	if err := r.cyclonedx(t, binaries, modules); err != nil {
		return err
	}
	return r.spdx(t, binaries, modules)
}

// linked are the modules that any of the programs links, with the toolchain as std.
func linked(binaries []file) ([]debug.Module, error) {
	seen := map[string]debug.Module{}
	for _, b := range binaries {
		info, err := buildinfo.Read(bytes.NewReader(b.data))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.name, err)
		}
		seen["std"] = debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			seen[m.Path] = *m
		}
	}
	modules := make([]debug.Module, 0, len(seen))
	for _, m := range seen {
		modules = append(modules, m)
	}
	slices.SortFunc(modules, func(a, b debug.Module) int { return cmp.Compare(a.Path, b.Path) })
	return modules, nil
}

func purl(m debug.Module) string { return "pkg:golang/" + m.Path + "@" + m.Version }

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func (r *release) cyclonedx(t target, binaries []file, modules []debug.Module) error {
	bom := cyclonedx.NewBOM()
	bom.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, []byte(home+"@"+r.commit+"/"+t.String())).URN()
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: r.date.Format(time.RFC3339),
		Component: &cyclonedx.Component{
			BOMRef: "powerbox", Type: cyclonedx.ComponentTypeApplication, Name: "powerbox", Version: r.version,
			PackageURL: "pkg:github/powerbox-project/powerbox@v" + r.version, Licenses: &cyclonedx.Licenses{{License: &cyclonedx.License{ID: license}}},
		},
	}
	var all []cyclonedx.Component
	depends := []string{}
	for _, b := range binaries {
		all = append(all, cyclonedx.Component{
			BOMRef: b.name, Type: cyclonedx.ComponentTypeFile, Name: b.name, Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: digest(b.data)}},
		})
	}
	for _, m := range modules {
		all = append(all, cyclonedx.Component{BOMRef: purl(m), Type: cyclonedx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: purl(m)})
		depends = append(depends, purl(m))
	}
	bom.Components = &all
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: "powerbox", Dependencies: &depends}}
	var out bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, r.name(t)+".cdx.json"), out.Bytes(), 0o644)
}

const license = "Apache-2.0"

func (r *release) spdx(t target, binaries []file, modules []debug.Module) error {
	doc := &v2_3.Document{
		SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName: r.name(t), DocumentNamespace: home + "/spdx/" + r.name(t) + "/" + r.commit,
		CreationInfo: &v2_3.CreationInfo{
			Created: r.date.Format(time.RFC3339), Creators: []common.Creator{{CreatorType: "Tool", Creator: "powerbox-dist-" + r.version}},
		},
	}
	add := func(p *v2_3.Package, relation string) {
		p.PackageDownloadLocation, p.PackageCopyrightText = cmp.Or(p.PackageDownloadLocation, "NOASSERTION"), "NOASSERTION"
		p.PackageLicenseConcluded = "NOASSERTION"
		p.PackageLicenseDeclared = cmp.Or(p.PackageLicenseDeclared, "NOASSERTION")
		doc.Packages = append(doc.Packages, p)
		from := common.MakeDocElementID("", "Package-powerbox")
		if relation == "DESCRIBES" {
			from = common.MakeDocElementID("", "DOCUMENT")
		}
		doc.Relationships = append(doc.Relationships, &v2_3.Relationship{RefA: from, RefB: common.MakeDocElementID("", string(p.PackageSPDXIdentifier)), Relationship: relation})
	}
	add(&v2_3.Package{PackageName: "powerbox", PackageSPDXIdentifier: "Package-powerbox", PackageVersion: r.version, PackageDownloadLocation: "git+" + home + "@" + r.commit, PackageLicenseDeclared: license}, "DESCRIBES")
	for _, b := range binaries {
		add(&v2_3.Package{
			PackageName: b.name, PackageSPDXIdentifier: common.ElementID("Binary-" + b.name), PackageVersion: r.version,
			PackageChecksums: []common.Checksum{{Algorithm: common.SHA256, Value: digest(b.data)}},
		}, "CONTAINS")
	}
	for n, m := range modules {
		add(&v2_3.Package{
			PackageName: m.Path, PackageSPDXIdentifier: common.ElementID(fmt.Sprintf("Module-%d", n)), PackageVersion: m.Version,
			PackageExternalReferences: []*v2_3.PackageExternalReference{{Category: common.CategoryPackageManager, RefType: "purl", Locator: purl(m)}},
		}, "DEPENDS_ON")
	}
	var out bytes.Buffer
	if err := json.Write(doc, &out, json.Indent("  ")); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, r.name(t)+".spdx.json"), out.Bytes(), 0o644)
}
