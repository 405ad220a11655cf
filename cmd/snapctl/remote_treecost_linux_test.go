package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/boocode/filestore/cmd/snapctl/internal/s3"
	"github.com/boocode/filestore/internal/remote/remotetest"
)

var costTree = flag.String("remote-tree", "", "measure what it costs to push this directory and to clone it")

// A treeCost is a directory that goes into a remote, and what that takes.
type treeCost struct {
	*runner
	server   *remotetest.Server
	door     *door
	exported string // what the snapshot has
}

// A cost is processor time: of who asks, and of the server; and time.
type cost struct{ client, server, wall time.Duration }

func (c cost) String() string {
	return fmt.Sprintf("%.2f s and the server %.2f s (%.2f s by the clock)", c.client.Seconds(), c.server.Seconds(),
		c.wall.Seconds())
}

// of runs a command, and returns what it costs.
func (x *treeCost) of(cmd *exec.Cmd) cost {
	x.t.Helper()
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	before, begun := processTime(x.t, x.server.PID()), time.Now()
	if err := cmd.Run(); err != nil {
		x.t.Fatalf("%q: %v\n%s", cmd.Args, err, said.Bytes())
	}
	return cost{cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(),
		processTime(x.t, x.server.PID()) - before, time.Since(begun)}
}

// sizes returns how many files there are below a directory whose names end so, and their bytes.
func (x *treeCost) sizes(dir, suffix string) (n int, sum int64) {
	x.t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !strings.HasSuffix(name, suffix) {
			return err
		}
		st, err := d.Info()
		if err == nil {
			n, sum = n+1, sum+st.Size()
		}
		return err
	})
	if err != nil {
		x.t.Fatal(err)
	}
	return n, sum
}

// TestRemoteTreeCost pushes a directory, beside bare requests that put the same objects, clones it, beside an export
// and restic, and reads a part of it. Processor time is compared, requests and bytes are counted.
func TestRemoteTreeCost(t *testing.T) {
	if *costTree == "" {
		t.Skip("SKIPPED: it measures; run with -remote-tree DIR")
	}
	x := &treeCost{server: remotetest.Versity(t)}
	x.door = newDoor(t, x.server)
	x.runner = newRunner(t)
	x.project = *costTree
	x.env = append(x.server.Env(), "AWS_ENDPOINT_URL="+x.door.URL, "BOO_ENGINE=off")
	x.must("snapshot", "--session", "s1")
	packs, local := x.sizes(x.home, ".pack")
	link := "s3://" + x.server.Bucket + "/x"
	x.must("remote", "init", link)
	x.must("remote", "add", "team", link)
	asked := x.door.asked.Load()
	push := x.of(x.command("remote", "push"))
	asked = x.door.asked.Load() - asked
	there := filepath.Join(x.server.Dir, x.server.Bucket, "x")
	objects, remote := x.sizes(there, "")
	t.Logf("push: %v, %d requests; %d objects with %d bytes, %.3f x the %d bytes of %d packs here", push, asked,
		objects, remote, float64(remote)/float64(local), local, packs)
	bare := x.bare(there)
	t.Logf("bare requests that put them: %v; a push is %.2f x, %.2f x with the server", bare,
		push.client.Seconds()/bare.client.Seconds(),
		(push.client+push.server).Seconds()/(bare.client+bare.server).Seconds())
	x.clones(link)
	x.parts(link)
}

// bare puts all objects again, elsewhere, with one request each.
func (x *treeCost) bare(there string) cost {
	x.t.Helper()
	b, err := s3.New(s3.Config{Endpoint: x.server.URL, Bucket: x.server.Bucket, Prefix: "bare",
		Credentials: s3.Static(s3.Keys{ID: remotetest.AccessKey, Secret: remotetest.SecretKey})})
	if err != nil {
		x.t.Fatal(err)
	}
	here, server, begun := processTime(x.t, os.Getpid()), processTime(x.t, x.server.PID()), time.Now()
	err = fs.WalkDir(os.DirFS(there), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(there, name))
		if err != nil {
			return err
		}
		return b.Create(context.Background(), name, data)
	})
	if err != nil {
		x.t.Fatal(err)
	}
	return cost{processTime(x.t, os.Getpid()) - here, processTime(x.t, x.server.PID()) - server,
		time.Since(begun)}
}

// clones brings all of it elsewhere.
func (x *treeCost) clones(link string) {
	x.exported = filepath.Join(x.t.TempDir(), "export")
	export := x.of(x.command("export", "@", x.exported))
	dir := filepath.Join(x.t.TempDir(), "clone")
	asked, got := x.door.asked.Load(), x.door.got.Load()
	clone := x.of(x.elsewhere("clone", link, dir))
	x.t.Logf("clone: %v, %d requests, %d bytes; export from a store %v: %.2f x", clone, x.door.asked.Load()-asked,
		x.door.got.Load()-got, export, clone.client.Seconds()/export.client.Seconds())
	restic, err := exec.LookPath("restic")
	if err != nil {
		x.t.Log("there is no restic")
		return
	}
	run := func(args ...string) cost {
		c := exec.Command(restic, append([]string{"-q", "-r", "s3:" + x.server.URL + "/" + x.server.Bucket + "/restic"},
			args...)...)
		c.Env = append(os.Environ(), x.server.Env()...)
		c.Env = append(c.Env, "RESTIC_PASSWORD=x", "HOME="+x.t.TempDir())
		c.Dir = x.project
		return x.of(c)
	}
	run("init")
	run("backup", ".")
	restore := run("restore", "latest", "--target", filepath.Join(x.t.TempDir(), "restic"))
	x.t.Logf("restic restores in %v: %.1f x a clone, %.1f x by the clock", restore,
		restore.client.Seconds()/clone.client.Seconds(), restore.wall.Seconds()/clone.wall.Seconds())
}

// elsewhere is a command of somebody who has nothing but the identity.
func (x *treeCost) elsewhere(args ...string) *exec.Cmd {
	r := *x.runner
	r.home = x.t.TempDir()
	r.project = r.home
	r.env = append(r.env, "BOO_IDENTITY="+filepath.Join(x.home, ".config", "snapctl", "identity.age"))
	return r.command(args...)
}

// parts brings one file, then a directory, and then one file in a hundred.
func (x *treeCost) parts(link string) {
	var files []string
	dirs := make(map[string]int)
	filepath.WalkDir(x.exported, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			rel, _ := filepath.Rel(x.exported, name)
			files = append(files, rel)
			dirs[filepath.Dir(rel)]++
		}
		return err
	})
	best := ""
	for dir, n := range dirs {
		if n == 50 && (best == "" || dir < best) {
			best = dir
		}
	}
	dir := filepath.Join(x.t.TempDir(), "part")
	asked, got := x.door.asked.Load(), x.door.got.Load()
	told := func(what string, n int) {
		x.t.Logf("%s: %d files, %d requests, %d bytes", what, n, x.door.asked.Load()-asked, x.door.got.Load()-got)
		asked, got = x.door.asked.Load(), x.door.got.Load()
	}
	clone := x.elsewhere("clone", link, dir, "--only", files[0])
	x.of(clone)
	told("one file of a clone", 1)
	restore := func(paths ...string) {
		args := append([]string{"--root", dir, "restore", "-y", "--on-dirty", "overwrite", "@"}, paths...)
		c := exec.Command("snapctl", args...)
		c.Env = clone.Env
		x.of(c)
	}
	if best != "" {
		restore(best)
		told("a directory, "+best, 50)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	rng.Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
	files = files[:len(files)/100]
	var plain int64
	for _, name := range files {
		if st, err := os.Stat(filepath.Join(x.exported, name)); err == nil {
			plain += st.Size()
		}
	}
	restore(files...)
	told(fmt.Sprintf("one in a hundred at random, of %d bytes", plain), len(files))
}
