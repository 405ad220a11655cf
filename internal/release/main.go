// Command release builds what users install, from one table of targets: archives, packages for
// Debian, Red Hat and Alpine, npm packages, a formula for Homebrew, checksums and a list of
// what is linked in. Run it at the root of the module: make release.
//
// Two runs on one commit with one release of Go write the same bytes: all times are the
// commit's, files are in order, and nothing of the machine is in them. ADR 42 says why this
// is a program of ours.
package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// repository is where releases are downloaded.
	repository = "https://github.com/boocode/filestore"
	summary    = "Snapshots of what coding agents do to your files, and the way back"
	module     = "github.com/boocode/filestore"
)

// programs are in each archive and package.
var programs = []string{"snapctl", "snapctl-checkpoints"}

// A target is a system that programs are built for, and its names elsewhere.
type target struct {
	os, arch string            // as Go calls them
	npm      string            // npm's, and node's: os-cpu
	packages map[string]string // nfpm's formats, with the name that the format has for arch
}

var targets = []target{
	{"linux", "amd64", "linux-x64", map[string]string{"deb": "amd64", "rpm": "x86_64", "apk": "x86_64"}},
	{"linux", "arm64", "linux-arm64", map[string]string{"deb": "arm64", "rpm": "aarch64", "apk": "aarch64"}},
	{"darwin", "amd64", "darwin-x64", nil},
	{"darwin", "arm64", "darwin-arm64", nil},
	{"windows", "amd64", "win32-x64", nil},
	{"windows", "arm64", "win32-arm64", nil},
}

// exe returns the file name of a program.
func (t *target) exe(program string) string {
	if t.os == "windows" {
		return program + ".exe"
	}
	return program
}

// name returns what the target's files are called.
func (r *release) name(t *target) string { return "snapctl_" + r.version + "_" + t.os + "_" + t.arch }

// A release is one that is being built.
type release struct {
	version string    // without the v
	time    time.Time // of the commit
	dir     string    // what is made
	work    string    // what is needed for it
	shared  []file    // in every archive: documents, manual pages, completions
}

// A file is one in an archive.
type file struct {
	path    string // with slashes
	content []byte
	mode    int64
}

func byPath(a, b file) int { return strings.Compare(a.path, b.path) }

func main() {
	out := flag.String("o", "dist", "write to `DIR`, which is emptied first")
	version := flag.String("version", "", "call it `VERSION` (default what git describe says)")
	only := flag.String("only", "", "build `TARGETS` only, as linux/amd64,windows/arm64")
	programs := flag.String("programs", "", "build the programs for this machine into `DIR`, and nothing else")
	flag.Parse()
	if *programs != "" {
		if err := buildHere(*programs); err != nil {
			fmt.Fprintf(os.Stderr, "release: %v\n", err)
			os.Exit(1)
		}
		return
	}
	if err := run(*out, *version, *only); err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

func run(out, version, only string) error {
	chosen, err := choose(only)
	if err != nil {
		return err
	}
	r := &release{dir: out, version: strings.TrimPrefix(version, "v")}
	if r.time, err = commitTime(); err != nil {
		return err
	}
	if r.version == "" {
		if r.version, err = describe(); err != nil {
			return err
		}
	}
	if r.work, err = os.MkdirTemp("", "release"); err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	if err := makeEmpty(out); err != nil {
		return err
	}
	if err := r.share(); err != nil {
		return err
	}
	for _, t := range chosen {
		if err := r.target(&t); err != nil {
			return fmt.Errorf("%s/%s: %w", t.os, t.arch, err)
		}
	}
	return r.finish(chosen)
}

// sumsName is the file that names all others of a release, but for the programs in bin/.
const sumsName = "SHA256SUMS"

// makeEmpty makes an empty directory, in place of an older release, and of nothing else.
func makeEmpty(out string) error {
	list, err := os.ReadDir(out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	sums, _ := os.ReadFile(filepath.Join(out, sumsName)) // without them nothing is known
	for _, d := range list {
		isOurs := d.Name() == sumsName || d.Name() == "bin" && d.IsDir() && len(sums) > 0 ||
			bytes.Contains(sums, []byte("  "+d.Name()+"\n"))
		if !isOurs {
			return fmt.Errorf("%s has %s, which is of no release: nothing was written", out, d.Name())
		}
	}
	return errors.Join(os.RemoveAll(out), os.MkdirAll(out, 0o755))
}

// choose returns the targets that are asked for.
func choose(only string) ([]target, error) {
	if only == "" {
		return targets, nil
	}
	var list []target
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(targets, func(t target) bool { return t.os+"/"+t.arch == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no target %q", name)
		}
		list = append(list, targets[i])
	}
	return list, nil
}

// share makes what is the same for all targets.
func (r *release) share() error {
	for _, name := range []string{"CHANGELOG.md", "LICENSE", "README.md", "THIRD_PARTY_LICENSES"} {
		if err := r.add(name, name); err != nil {
			return err
		}
	}
	snapctl := filepath.Join(r.work, "snapctl")
	if err := r.build(snapctl, "snapctl", nil); err != nil {
		return err
	}
	for shell, name := range map[string]string{"bash": "snapctl.bash", "zsh": "_snapctl", "fish": "snapctl.fish",
		"powershell": "snapctl.ps1"} {
		script, err := output(snapctl, "completion", shell)
		if err != nil {
			return err
		}
		r.shared = append(r.shared, file{"completions/" + name, []byte(script), 0o644})
	}
	pages := filepath.Join(r.work, "man")
	if _, err := output(snapctl, "man", pages); err != nil {
		return err
	}
	names, err := filepath.Glob(filepath.Join(pages, "*.1"))
	for _, name := range names {
		err = errors.Join(err, r.add("man/"+filepath.Base(name), name))
	}
	return err
}

// add has a file in every archive.
func (r *release) add(name, source string) error {
	b, err := os.ReadFile(source)
	r.shared = append(r.shared, file{name, b, 0o644})
	return err
}

// buildHere builds the programs as a release has them, for this machine.
func buildHere(dir string) error {
	r := &release{version: "0.0.0"}
	for _, program := range programs {
		if err := r.build(filepath.Join(dir, program), program, nil); err != nil {
			return err
		}
	}
	return nil
}

// cold are the packages whose code waits for a person, a server or a disk. They are compiled without
// inlining, which takes 4 % off snapctl (ADR 54). What reads, hashes, compares and compresses is not here.
var cold = []string{
	module + "/checkpoint/...", module + "/cmd/...", module + "/internal/exchange", module + "/internal/remote/...",
	module + "/internal/retain", "charm.land/...", "crypto/tls", "crypto/x509", "encoding/asn1", "encoding/xml",
	"filippo.io/...", "github.com/charmbracelet/...", "github.com/pelletier/...", "github.com/spf13/...",
	"github.com/tailscale/...", "golang.org/x/crypto/ssh/...", "math/big", "mime/...", "net", "net/http",
	"net/textproto", "net/url", "text/template/...", "vendor/golang.org/x/...",
}

// build builds a program. HTTP/2 is left out, which nothing here has need of, and functions
// begin at multiples of 16 bytes, not 32: ADR 54 has what that saves.
func (r *release) build(to, program string, env []string) error {
	// No build ID and no state of the repository: a clone has the same bytes.
	args := []string{"build", "-trimpath", "-buildvcs=false", "-tags", "nethttpomithttp2", "-o", to,
		"-ldflags", "-s -w -buildid= -funcalign=16 -X " + module + "/internal/version.release=v" + r.version}
	for _, packages := range cold {
		args = append(args, "-gcflags="+packages+"=-l")
	}
	cmd := exec.Command("go", append(args, "./cmd/"+program)...)
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0"), env...)
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

// target makes all that is for one target.
func (r *release) target(t *target) error {
	var files []file
	bin := filepath.Join(r.dir, "bin", t.os+"_"+t.arch)
	for _, program := range programs {
		name := filepath.Join(bin, t.exe(program))
		if err := r.build(name, program, []string{"GOOS=" + t.os, "GOARCH=" + t.arch}); err != nil {
			return err
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		files = append(files, file{t.exe(program), b, 0o755})
	}
	bill, err := r.bill(t, files)
	if err != nil {
		return err
	}
	files = append(files, file{"snapctl.spdx.json", bill, 0o644})
	files = append(files, r.shared...)
	slices.SortFunc(files, byPath)
	if err := r.archive(t, files); err != nil {
		return err
	}
	for _, format := range []string{"deb", "rpm", "apk"} {
		if arch := t.packages[format]; arch != "" {
			if err := r.pack(t, format, arch, files); err != nil {
				return err
			}
		}
	}
	return r.npmTarget(t, files)
}

// finish makes what names the files of all targets.
func (r *release) finish(chosen []target) error {
	if err := r.npmLauncher(chosen); err != nil {
		return err
	}
	if err := r.formula(chosen); err != nil {
		return err
	}
	for _, name := range []string{"install.sh", "Dockerfile"} {
		b, err := os.ReadFile(filepath.Join("internal/release", name))
		if err == nil {
			err = r.write(name, b)
		}
		if err != nil {
			return err
		}
	}
	return r.writeSums()
}

// writeSums writes the checksums of all files that users may download.
func (r *release) writeSums() error {
	names, err := os.ReadDir(r.dir)
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, d := range names {
		if d.Type().IsRegular() {
			sum, err := r.sum(d.Name())
			if err != nil {
				return err
			}
			fmt.Fprintf(&sums, "%s  %s\n", sum, d.Name())
		}
	}
	return r.write(sumsName, sums.Bytes())
}

// write writes a file of the release.
func (r *release) write(name string, b []byte) error {
	mode := os.FileMode(0o644)
	if strings.HasSuffix(name, ".sh") {
		mode = 0o755
	}
	return os.WriteFile(filepath.Join(r.dir, name), b, mode)
}

// sum returns the SHA-256 of a file of the release, in hex.
func (r *release) sum(name string) (string, error) {
	f, err := os.Open(filepath.Join(r.dir, name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return fmt.Sprintf("%x", h.Sum(nil)), err
}

// output runs a program and returns what it prints, without blanks around it.
func output(name string, args ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err, &errs)
	}
	return strings.TrimSpace(out.String()) + "\n", nil
}

// commitTime returns that of HEAD, or SOURCE_DATE_EPOCH where there is no repository.
func commitTime() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		var err error
		if text, err = output("git", "log", "-1", "--format=%ct"); err != nil {
			return time.Time{}, err
		}
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return time.Unix(seconds, 0).UTC(), err
}
