package main

import (
	_ "embed"
	"encoding/json"
	"slices"
	"strings"
)

// The package that people name has a launcher; its optional dependencies are one package for each
// target, of which npm installs the one that fits.
const npmName = "@boocode/snapctl"

var (
	//go:embed npm/launch.js
	npmLaunch []byte
	//go:embed npm/install.js
	npmInstall []byte
)

// manifest is what the packages have in common.
func (r *release) manifest(name, description string) map[string]any {
	return map[string]any{"name": name, "version": r.version, "description": description, "license": "Apache-2.0",
		"repository": map[string]string{"type": "git", "url": "git+" + repository + ".git"}}
}

// npmTarget makes the package with the programs of a target.
func (r *release) npmTarget(t *target, files []file) error {
	m := r.manifest(npmName+"-"+t.npm, summary+": the programs for "+t.os+"/"+t.arch)
	system, cpu, _ := strings.Cut(t.npm, "-")
	m["os"], m["cpu"], m["preferUnplugged"] = []string{system}, []string{cpu}, true
	list := []file{}
	for _, f := range files {
		switch {
		case f.mode == 0o755:
			f.path = "bin/" + f.path
			list = append(list, f)
		case f.path == "LICENSE" || f.path == "THIRD_PARTY_LICENSES" || f.path == "snapctl.spdx.json":
			list = append(list, f)
		}
	}
	return r.npmPackage("npm-snapctl-"+t.npm, m, list)
}

// npmLauncher makes the package that people name.
func (r *release) npmLauncher(chosen []target) error {
	m := r.manifest(npmName, summary)
	optional := make(map[string]string)
	for _, t := range chosen {
		optional[npmName+"-"+t.npm] = r.version
	}
	m["optionalDependencies"] = optional
	m["bin"] = map[string]string{"snapctl": "bin/snapctl"}
	m["scripts"] = map[string]string{"postinstall": "node install.js"}
	m["engines"] = map[string]string{"node": ">=18"}
	list := []file{{"bin/snapctl", npmLaunch, 0o755}, {"install.js", npmInstall, 0o644}}
	for _, f := range r.shared {
		if f.path == "LICENSE" || f.path == "README.md" {
			list = append(list, f)
		}
	}
	return r.npmPackage("npm-snapctl", m, list)
}

func (r *release) npmPackage(name string, manifest map[string]any, files []file) error {
	b, err := json.MarshalIndent(manifest, "", "  ")
	if err != nil {
		return err
	}
	files = append(files, file{"package.json", append(b, '\n'), 0o644})
	for i := range files {
		files[i].path = "package/" + files[i].path
	}
	slices.SortFunc(files, byPath)
	if b, err = tarred(files, r.time); err != nil {
		return err
	}
	return r.write(name+"-"+r.version+".tgz", b)
}
