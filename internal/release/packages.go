package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// nfpmFile has the pinned version of nfpm, which knows how packages are laid out.
const nfpmFile = "-modfile=internal/tools/nfpm/go.mod"

// places says where a package has a file of the archive, by the file's directory; a file that is
// in none is documentation.
func place(format string, f *file) string {
	base := path.Base(f.path)
	switch {
	case f.mode == 0o755:
		return "/usr/bin/" + base
	case strings.HasSuffix(base, ".1"):
		return "/usr/share/man/man1/" + base + ".gz"
	case base == "snapctl.bash":
		return "/usr/share/bash-completion/completions/snapctl"
	case base == "_snapctl" && format == "deb":
		return "/usr/share/zsh/vendor-completions/_snapctl"
	case base == "_snapctl":
		return "/usr/share/zsh/site-functions/_snapctl"
	case base == "snapctl.fish":
		return "/usr/share/fish/vendor_completions.d/snapctl.fish"
	case base == "snapctl.ps1":
		return ""
	case base == "LICENSE" && format == "deb":
		return "/usr/share/doc/snapctl/copyright"
	case base == "LICENSE" && format == "rpm":
		return "/usr/share/licenses/snapctl/LICENSE"
	}
	return "/usr/share/doc/snapctl/" + base
}

// pack makes a package.
func (r *release) pack(t *target, format, arch string, files []file) error {
	dir := filepath.Join(r.work, t.os+t.arch+format)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	type info struct {
		Mode  int64  `json:"mode"`
		MTime string `json:"mtime"`
	}
	type content struct {
		Src  string `json:"src"`
		Dst  string `json:"dst"`
		Info info   `json:"file_info"`
	}
	at := r.time.Format(time.RFC3339)
	var contents []content
	for i, f := range files {
		to := place(format, &f)
		if to == "" {
			continue
		}
		b := f.content
		var err error
		if strings.HasSuffix(to, ".gz") {
			b, err = gzipped(b)
		}
		from := filepath.Join(dir, fmt.Sprint(i))
		if err == nil {
			err = os.WriteFile(from, b, 0o644)
		}
		if err != nil {
			return err
		}
		contents = append(contents, content{from, to, info{f.mode, at}})
	}
	config, err := json.Marshal(map[string]any{ // which is YAML, too
		"name": "snapctl", "arch": t.arch, "platform": "linux", "version": r.version, "section": "utils",
		"maintainer": "The filestore authors <noreply@github.com>", "description": summary, "homepage": repository,
		"license": "Apache-2.0", "mtime": at, "contents": contents,
		"rpm": map[string]any{"buildhost": "localhost", "group": "Applications/File", "compression": "gzip"},
	})
	name := filepath.Join(dir, "nfpm.yaml")
	if err == nil {
		err = os.WriteFile(name, config, 0o644)
	}
	if err != nil {
		return err
	}
	to := filepath.Join(r.dir, "snapctl_"+r.version+"_"+arch+"."+format)
	cmd := exec.Command("go", "tool", nfpmFile, "nfpm", "package", "-f", name, "-p", format, "-t", to)
	cmd.Env = append(os.Environ(), fmt.Sprint("SOURCE_DATE_EPOCH=", r.time.Unix()))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nfpm: %w: %s", err, out)
	}
	return nil
}
