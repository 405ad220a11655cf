package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Of SPDX 2.3, as JSON.
type (
	bill struct {
		Version       string         `json:"spdxVersion"`
		License       string         `json:"dataLicense"`
		ID            string         `json:"SPDXID"`
		Name          string         `json:"name"`
		Namespace     string         `json:"documentNamespace"`
		Creation      creation       `json:"creationInfo"`
		Packages      []spdxPackage  `json:"packages"`
		Relationships []relationship `json:"relationships"`
	}
	creation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		ID        string     `json:"SPDXID"`
		Name      string     `json:"name"`
		Version   string     `json:"versionInfo"`
		File      string     `json:"packageFileName,omitempty"`
		From      string     `json:"downloadLocation"`
		Analyzed  bool       `json:"filesAnalyzed"`
		Checksums []checksum `json:"checksums,omitempty"`
		Refs      []ref      `json:"externalRefs,omitempty"`
		Comment   string     `json:"comment,omitempty"`
	}
	checksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	ref struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	relationship struct {
		From string `json:"spdxElementId"`
		Type string `json:"relationshipType"`
		To   string `json:"relatedSpdxElement"`
	}
)

// bill lists the programs of a target and the modules that are linked into each, as the
// programs themselves say it.
func (r *release) bill(t *target, programs []file) ([]byte, error) {
	name := r.name(t)
	b := &bill{Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: name,
		Namespace: repository + "/releases/download/v" + r.version + "/" + name + ".spdx.json",
		Creation:  creation{r.time.Format(time.RFC3339), []string{"Tool: " + module + "/internal/release"}}}
	modules := make(map[string]spdxPackage)
	for i, p := range programs {
		info, err := buildinfo.Read(bytes.NewReader(p.content))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.path, err)
		}
		id := fmt.Sprint("SPDXRef-program-", i)
		sum := checksum{"SHA256", fmt.Sprintf("%x", sha256.Sum256(p.content))}
		b.Packages = append(b.Packages, spdxPackage{ID: id, Name: strings.TrimSuffix(p.path, ".exe"),
			Version: r.version, File: p.path, From: repository, Checksums: []checksum{sum}})
		b.Relationships = append(b.Relationships, relationship{b.ID, "DESCRIBES", id})
		linked := map[string]spdxPackage{"stdlib": golang("stdlib", strings.TrimPrefix(info.GoVersion, "go"), "")}
		for _, m := range info.Deps {
			linked[m.Path] = golang(m.Path, m.Version, m.Sum)
		}
		for _, path := range slices.Sorted(maps.Keys(linked)) {
			modules[path] = linked[path]
			b.Relationships = append(b.Relationships, relationship{id, "CONTAINS", linked[path].ID})
		}
	}
	for _, path := range slices.Sorted(maps.Keys(modules)) {
		b.Packages = append(b.Packages, modules[path])
	}
	text, err := json.MarshalIndent(b, "", "  ")
	return append(text, '\n'), err
}

// golang describes a module of Go.
func golang(path, version, sum string) spdxPackage {
	id := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r == '.' {
			return r
		}
		return '-'
	}, path)
	p := spdxPackage{ID: "SPDXRef-go-" + id, Name: path, Version: version, From: "NOASSERTION",
		Refs: []ref{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + version}}}
	if sum != "" {
		p.Comment = "go.sum: " + sum
	}
	return p
}
