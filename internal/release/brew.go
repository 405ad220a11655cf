package main

import (
	"bytes"
	_ "embed"
	"text/template"
)

//go:embed snapctl.rb.tmpl
var formulaText string

// formula makes that of Homebrew, for the targets that it knows.
func (r *release) formula(chosen []target) error {
	t, err := template.New("").Parse(formulaText)
	if err != nil {
		return err
	}
	urls := make(map[string]map[string]string)
	for _, c := range chosen {
		if c.os == "windows" {
			continue
		}
		name := r.name(&c) + ".tar.gz"
		sum, err := r.sum(name)
		if err != nil {
			return err
		}
		urls[c.os+"_"+c.arch] = map[string]string{"URL": r.url(name), "Sum": sum}
	}
	var b bytes.Buffer
	err = t.Execute(&b, map[string]any{"Summary": summary, "Home": repository, "Version": r.version, "Of": urls,
		"Systems": map[string]string{"darwin": "macos", "linux": "linux"},
		"CPUs":    map[string]string{"amd64": "intel", "arm64": "arm"}})
	if err != nil {
		return err
	}
	return r.write("snapctl.rb", b.Bytes())
}

// url returns where a file of the release is downloaded.
func (r *release) url(name string) string {
	return repository + "/releases/download/v" + r.version + "/" + name
}
