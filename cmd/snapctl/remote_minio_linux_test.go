package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/boocode/filestore/cmd/snapctl/internal/s3"
	"github.com/boocode/filestore/internal/remote"
	"github.com/boocode/filestore/internal/remote/remotetest"
)

var withMinio = flag.Bool("minio", false, "build MinIO, and use it as a remote while nodes of it are killed")

// inNamespace says that a test runs in a network of its own.
const inNamespace = "SNAPCTL_TEST_NETWORK"

// ownNetwork runs the test again, as a process in a network that has the one address, and reports whether this is
// that process.
func ownNetwork(t *testing.T, address string) bool {
	t.Helper()
	if os.Getenv(inNamespace) != "" {
		for _, args := range [][]string{{"link", "set", "lo", "up"}, {"addr", "add", address + "/32", "dev", "lo"}} {
			if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
				t.Fatalf("ip %q: %v: %s", args, err, out)
			}
		}
		return true
	}
	c := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", "-minio")
	c.Env = append(os.Environ(), inNamespace+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM}
	if os.Getuid() != 0 {
		c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := c.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Errorf("in a network of its own: %v", err)
	}
	return false
}

// TestMinio pushes to MinIO of four processes. With one killed in the middle of a push it goes on; with two, what is
// there is read whole, what is not is told to be waiting, and turns go on; when all are back, the rest comes. Nothing
// that was said to be there is lost.
func TestMinio(t *testing.T) {
	if !*withMinio {
		t.Skip("SKIPPED: it builds MinIO; run with -minio")
	}
	binary := remotetest.MinioProgram(t)
	if !ownNetwork(t, remotetest.MinioHost) {
		return
	}
	cluster := remotetest.Minio(t, binary)
	url := "s3://" + cluster.Bucket + "/some/prefix"
	w := &minioWorld{t: t, cluster: cluster, rng: rand.New(rand.NewPCG(31, 5)),
		alice: &remoteUser{t, t.TempDir(), cluster.Env(0)}}
	w.dir = filepath.Join(w.alice.home, "p")
	w.turn("first")
	w.alice.must(w.dir, "remote", "init", url)
	w.alice.must(w.dir, "remote", "add", "team", url)
	w.alice.must(w.dir, "remote", "push")

	w.turn("one is killed")
	code, said := w.push(func() { cluster.Kill(3) })
	if code != exitDone || !strings.Contains(said, "pushed 1 record ") {
		t.Errorf("push while a node is killed: code %d: %s", code, said)
	}
	w.clone("three nodes", url, 1)

	w.turn("two are killed")
	code, said = w.push(func() { cluster.Kill(2) }, "--timeout", "20s")
	if code != exitEnvironment || !strings.Contains(said, `session "s1": not done within 20s (before: `) {
		t.Errorf("push while a second node is killed: code %d: %s", code, said)
	}
	t.Logf("push with two of four nodes: %s", said)
	w.turn("two are dead")
	if code, said := w.alice.run(w.dir, "remote", "wait", "--timeout", "2s"); code != exitEnvironment {
		t.Errorf("wait with two of four nodes: code %d: %s", code, said)
	}
	said = w.alice.must(w.dir, "remote", "status")
	t.Logf("status with two of four nodes: %s", said)
	if !strings.Contains(said, "2 records of 1 session not there yet") {
		t.Errorf("status with two of four nodes: %s", said)
	}
	waiting := w.turns[2:]
	w.turns = w.turns[:2:2]
	w.clone("two nodes", url, 0)

	for _, node := range []int{2, 3} {
		cluster.Start(node)
		w.canWrite(node)
	}
	w.alice.must(w.dir, "remote", "push")
	if said := w.alice.must(w.dir, "remote", "status"); !strings.Contains(said, "all is there") {
		t.Errorf("status with all nodes back: %s", said)
	}
	w.turns = append(w.turns, waiting...)
	said = w.alice.must(w.dir, "remote", "check", "--data")
	t.Logf("check with all nodes back: %s", said)
	w.clone("all nodes back", url, 3)
	secretScan(t, cluster.Dir)
}

// A minioWorld is a user whose turns go to a cluster.
type minioWorld struct {
	t       *testing.T
	cluster *remotetest.Cluster
	rng     *rand.Rand
	alice   *remoteUser
	dir     string // alice's
	turns   []killedAck
	tried   int // canWrite
}

// bucket returns the bucket as a node has it.
func (w *minioWorld) bucket(node int) *s3.Bucket {
	b, err := s3.New(s3.Config{Endpoint: w.cluster.URL(node), Bucket: w.cluster.Bucket,
		Credentials: s3.Static(s3.Keys{ID: remotetest.AccessKey, Secret: remotetest.SecretKey})})
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// canWrite waits until a node that has come back can write: only then does it show all that is there.
func (w *minioWorld) canWrite(node int) {
	w.t.Helper()
	w.tried++
	for b, begun := w.bucket(node), time.Now(); ; time.Sleep(10 * time.Millisecond) {
		err := b.Create(w.t.Context(), fmt.Sprintf("can-write/%d", w.tried), nil)
		if err == nil {
			return
		}
		if time.Since(begun) > time.Minute {
			w.t.Fatalf("node %d cannot write: %v", node, err)
		}
	}
}

// TestMinioContract holds MinIO of four processes, asked by one of them, to what a remote has to do.
func TestMinioContract(t *testing.T) {
	if !*withMinio {
		t.Skip("SKIPPED: it builds MinIO; run with -minio")
	}
	binary := remotetest.MinioProgram(t)
	if !ownNetwork(t, remotetest.MinioHost) {
		return
	}
	cluster, opened := remotetest.Minio(t, binary), 0
	remotetest.Test(t, func(t *testing.T) remote.Backend {
		opened++
		b, err := s3.New(s3.Config{Endpoint: cluster.URL(1), Bucket: cluster.Bucket, Prefix: fmt.Sprint("p", opened),
			Credentials: s3.Static(s3.Keys{ID: remotetest.AccessKey, Secret: remotetest.SecretKey})})
		if err != nil {
			t.Fatal(err)
		}
		return b
	})
}

// TestMinioComesBack has a node of MinIO come back to objects that were put while it was away. It may say that they
// are not there as long as it can write nothing; but who has just put an object by it reads and lists them: on that
// prunes and their writers count.
func TestMinioComesBack(t *testing.T) {
	if !*withMinio {
		t.Skip("SKIPPED: it builds MinIO; run with -minio")
	}
	binary := remotetest.MinioProgram(t)
	if !ownNetwork(t, remotetest.MinioHost) {
		return
	}
	w := &minioWorld{t: t, cluster: remotetest.Minio(t, binary)}
	here, back := w.bucket(0), w.bucket(3)
	hidden, sure := 0, 0
	for round := range 6 {
		w.cluster.Kill(3)
		key := fmt.Sprintf("log/%d/0", round)
		if err := remote.NewSure(here, time.Minute).Create(t.Context(), key, []byte("entry")); err != nil {
			t.Fatal(err)
		}
		w.cluster.Start(3)
		for n, isThere := 0, 0; isThere < 100; n++ {
			perr := back.Create(t.Context(), fmt.Sprintf("new/%d/%d", round, n), nil)
			_, gerr := back.Get(t.Context(), key, 0, -1)
			if errors.Is(gerr, remote.ErrNoKey) {
				hidden++
			}
			if perr != nil {
				continue
			}
			isThere++
			sure++
			if gerr != nil {
				t.Errorf("round %d: behind a put that was done: %v", round, gerr)
			}
			listed := 0
			for _, err := range back.List(t.Context(), fmt.Sprintf("log/%d/", round), "") {
				if err != nil {
					t.Error(err)
				}
				listed++
			}
			if listed != 1 {
				t.Errorf("round %d: behind a put that was done %d objects are listed", round, listed)
			}
		}
	}
	t.Logf("it was said %d times that an object is not there, and never of %d times behind a put", hidden, sure)
}

// turn changes 80 MB, and records that.
func (w *minioWorld) turn(what string) {
	w.t.Helper()
	text := make([]byte, 1<<20)
	for i := range 80 {
		for i := range text {
			text[i] = byte(w.rng.Uint32())
		}
		copy(text, "secret-content")
		name := filepath.Join(w.dir, fmt.Sprintf("d%d", i%8), fmt.Sprint(i))
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, text, 0o600)); err != nil {
			w.t.Fatal(err)
		}
	}
	var answer snapshotAnswer
	out := w.alice.must(w.dir, "snapshot", "--json", "--session", "s1", "--max-bytes", "none", "-m", what)
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		w.t.Fatal(err)
	}
	w.turns = append(w.turns, killedAck{0, answer.SnapshotTreeHash.String(), digest(w.t, w.dir)})
}

// packs counts the packs that a node has.
func (w *minioWorld) packs() int {
	list, err := filepath.Glob(filepath.Join(w.cluster.Dir, "d0", w.cluster.Bucket, "some/prefix/data/*/*/*"))
	if err != nil {
		w.t.Fatal(err)
	}
	return len(list)
}

// push pushes, and has something happen when the first pack is there.
func (w *minioWorld) push(at func(), flags ...string) (code int, said string) {
	w.t.Helper()
	before := w.packs()
	done := make(chan struct{})
	go func() {
		defer close(done)
		code, said = w.alice.run(w.dir, append([]string{"remote", "push"}, flags...)...)
	}()
	for w.packs() == before {
		select {
		case <-done:
			w.t.Fatalf("a push has ended before it has put a pack: code %d: %s", code, said)
		case <-time.After(time.Millisecond):
		}
	}
	select {
	case <-done:
		w.t.Fatal("a push has ended before anything happened")
	default:
	}
	at()
	<-done
	return code, said
}

// clone clones from a node, and finds all turns there.
func (w *minioWorld) clone(what, url string, node int) {
	w.t.Helper()
	bob := &remoteUser{w.t, w.t.TempDir(), append(w.cluster.Env(node), "BOO_IDENTITY="+
		filepath.Join(w.alice.home, ".config", "snapctl", "identity.age"))}
	dir := filepath.Join(bob.home, "w")
	bob.must(bob.home, "clone", url, dir)
	if got := digest(w.t, dir); got != w.turns[len(w.turns)-1].state {
		w.t.Errorf("%s: a clone has other files than the newest turn that was pushed", what)
	}
	for i, turn := range w.turns {
		out := filepath.Join(bob.home, fmt.Sprint("out", i))
		bob.must(dir, "export", turn.tree, out)
		if got := digest(w.t, out); got != turn.state {
			w.t.Errorf("%s: turn %d comes back otherwise", what, i)
		}
	}
	bob.must(dir, "check", "--read-data")
}
