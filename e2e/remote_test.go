//go:build unix

package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// A machine is a world of a user of its own, who has nothing but what is there.
type machine struct {
	*world
	uid int
}

// newMachine returns a machine on which our extension is set up. Agents are installed where only
// who runs the test may read, so it has a copy.
func newMachine(t *testing.T, r *release, uid int) *machine {
	t.Helper()
	m := &machine{newWorld(t, r), uid}
	from, to := filepath.Dir(install(t, "pi", r.name, r.install, "ready")), filepath.Join(t.TempDir(), "pi")
	if exec.Command("cp", "-al", from, to).Run() != nil { // another disk
		os.RemoveAll(to)
		if err := run(".", "cp", "-a", from, to); err != nil {
			t.Fatal(err)
		}
	}
	m.command = r.command(to)
	m.as = func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	for _, dir := range []string{filepath.Dir(snapctl), filepath.Dir(m.home)} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{m.home, m.dir, m.logs} {
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		m.owns(dir)
	}
	m.snapctl("setup", "pi", "--yes")
	return m
}

// owns gives a file, or a directory with all that is in it, to the user.
func (m *machine) owns(name string) {
	m.t.Helper()
	err := filepath.WalkDir(name, func(name string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(name, m.uid, m.uid)
	})
	if err != nil {
		m.t.Fatal(err)
	}
}

// is fails the test unless the project is as a disk.
func (m *machine) is(when string, want disk) {
	m.t.Helper()
	if d := want.changes(diskOf(m.t, m.dir)); len(d) > 0 {
		m.t.Fatalf("%s: the project differs: %q", when, d)
	}
}

// says fails the test unless what a command prints has all texts.
func (m *machine) says(args []string, texts ...string) {
	m.t.Helper()
	out := m.snapctl(args...)
	for _, text := range texts {
		if !strings.Contains(out, text) {
			m.t.Errorf("snapctl %q says\n%s\nwant %q", args, out, text)
		}
	}
}

// TestPiRemote: a session of pi begins on A, and is cloned to B, where nothing is the same but the
// identity. B goes back to the first prompt, both go on, and each sees what the other has made of
// it, compares it, takes a file of it, takes all of it, and takes a turn of it back; and all that again.
func TestPiRemote(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: needs root, to be two users")
	}
	needsNPM(t)
	for _, r := range releases {
		t.Run(r.name, func(t *testing.T) { piRemote(t, newMachine(t, &r, 61001), newMachine(t, &r, 61002)) })
	}
}

func piRemote(t *testing.T, a, b *machine) {
	place := t.TempDir()
	if err := os.Chmod(place, 0o777); err != nil {
		t.Fatal(err)
	}
	a.write("own.txt", "mine\n")
	a.write("calc.txt", "1\n2\n3\n4\n5\n")
	a.owns(a.dir)
	start := diskOf(t, a.dir)

	a.snapctl("snapshot", "--session", "other") // B's records have other numbers
	pa := a.startPlain()
	pa.prompt("write a.txt one ;; edit calc.txt 1 one ;; fin")
	first := diskOf(t, a.dir)
	pa.prompt("bash echo two >> a.txt; mkdir d; echo deep > d/deep.txt ;; fin")
	pa.prompt("write gone.txt gone ;; fin")
	pa.slash("/rewind " + pa.user(3) + " both")
	pa.hears("Deleted 1 file: gone.txt")
	pa.prompt("edit calc.txt 5 five ;; bash chmod 700 a.txt; ln -s d link ;; fin")
	file, session := pa.file(), pa.session()
	pa.stop()
	a.snapctl("remote", "init", place)
	a.snapctl("remote", "add", "team", place)
	a.snapctl("remote", "push", "--all", "--wait")
	old := diskOf(t, a.dir)

	log := b.clone(a, place, session)
	b.is("a clone", old)
	b.snapctl("check", "--read-data")
	pb := b.startPlain("--session", log)
	if got := pb.session(); got != session {
		t.Errorf("session %q on A, %q on B", session, got)
	}
	pb.slash("/rewind " + pb.user(2) + " only")
	pb.hears("Deleted 1 file and 1 directory: d/deep.txt, d/")
	b.has("a.txt", "one\n", "calc.txt", "one\n2\n3\n4\nfive\n")
	pb.slash("/undo")
	pb.hears("Restored")
	b.is("undo of a revert", old)
	pb.prompt("write b.txt b ;; fin")
	pb.slash("/rewind " + pb.user(2) + " files")
	pb.hears("Deleted")
	b.is("back at the second prompt", first)
	pb.slash("/rewind " + pb.user(1) + " both")
	pb.hears("Deleted")
	b.is("back at the first prompt", start)
	pb.prompt("edit calc.txt 3 three ;; write bob.txt bob ;; fin")
	pb.prompt("write bob2.txt bob ;; fin")
	pb.stop()
	b.snapctl("remote", "push", "--all", "--wait")

	pa = a.startPlain("--session", file)
	pa.prompt("bash sed -i s/2/two/ calc.txt; echo alice > alice.txt ;; fin")
	pa.stop()
	a.snapctl("remote", "push", "--all", "--wait")
	tipA, tipB := diskOf(t, a.dir), diskOf(t, b.dir)
	back := maps.Clone(tipB)
	delete(back, "bob.txt")
	back["calc.txt"] = start["calc.txt"]
	a.meets(b, "team:"+session, tipB, "bob.txt", "edit calc.txt 3 three", back)
	back = maps.Clone(tipA)
	delete(back, "alice.txt")
	back["calc.txt"] = old["calc.txt"]
	b.meets(a, "origin:"+session, tipA, "alice.txt", "bash sed -i s/2/two/", back)

	// A goes on from what B has made, and B from that.
	a.snapctl("restore", "-y", "team:"+session)
	pa = a.startPlain("--session", file)
	pa.prompt("write joint.txt joint ;; fin")
	pa.stop()
	a.snapctl("remote", "push", "--all", "--wait")
	b.snapctl("remote", "pull")
	b.snapctl("restore", "-y", "origin:"+session)
	b.is("what A has made of B's", diskOf(t, a.dir))
	b.has("bob2.txt", "bob\n", "joint.txt", "joint\n", "alice.txt", "-")
	b.snapctl("undo", "-y")
	b.is("undo of that", tipB)
	for _, m := range []*machine{a, b} {
		m.snapctl("check", "--read-data")
	}
	a.snapctl("remote", "check", "--data")
}

// session returns the ID of the session.
func (a *agent) session() string {
	a.w.t.Helper()
	id, _ := a.do("get_state", nil)["sessionId"].(string)
	return id
}

// clone takes the identity of another machine's user, and clones a session that is at a place. It
// returns the file from which the conversation goes on.
func (m *machine) clone(from *machine, place, session string) string {
	m.t.Helper()
	const identity = ".config/snapctl/identity.age"
	key, err := os.ReadFile(filepath.Join(from.home, identity))
	if err != nil {
		m.t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(m.home, filepath.Dir(identity)), 0o700); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(m.home, identity), key, 0o600); err != nil {
		m.t.Fatal(err)
	}
	m.owns(m.home)
	var answer struct{ Logs []string }
	out := m.snapctl("clone", "--json", "--session", session, place, m.dir)
	if err := json.Unmarshal([]byte(out), &answer); err != nil || len(answer.Logs) != 1 {
		m.t.Fatalf("clone: %v\n%s", err, out)
	}
	return answer.Logs[0]
}

// meets has a machine see, compare and merge what another has made of its session, its tip: take a
// file of it, take all, and take back what a prompt did.
func (m *machine) meets(other *machine, tip string, theirs disk, file, prompt string, back disk) {
	m.t.Helper()
	mine := diskOf(m.t, m.dir)
	remote, session, _ := strings.Cut(tip, ":")
	m.snapctl("remote", "pull")
	m.says([]string{"sessions"}, "session "+session+" goes on elsewhere, too, in "+other.dir)
	m.says([]string{"sessions", "--remote", remote}, session, other.dir)
	log := m.snapctl("log", tip)
	turn := regexp.MustCompile(`(?m)^turn (\d+) +.* [1-9]\d* modified .*` + regexp.QuoteMeta(prompt))
	turns := turn.FindAllStringSubmatch(log, -1)
	if len(turns) != 1 {
		m.t.Fatalf("log %s has %d turns that change files for %q\n%s", tip, len(turns), prompt, log)
	}
	names := m.snapctl("diff", "--session", session, "--name-status", tip, "@")
	differ := strings.Split(strings.ReplaceAll(names, "\t", " "), "\n")
	want := append(theirs.changes(mine), "")
	slices.Sort(want)
	slices.Sort(differ)
	if d := gocmp.Diff(want, differ); d != "" {
		m.t.Errorf("diff %s @ (-want +got):\n%s", tip, d)
	}

	m.snapctl("restore", "-y", tip, file)
	with := diskOf(m.t, m.dir)
	if d := mine.changes(with); !slices.Equal(d, []string{"A " + file}) || with[file] != theirs[file] {
		m.t.Errorf("restore of %s does %q, and it is %q", file, d, with[file])
	}
	m.snapctl("undo", "-y")
	m.is("undo of a file", mine)

	m.snapctl("restore", "-y", tip)
	m.is("all of theirs", theirs)
	m.snapctl("revert", "-y", tip+"@"+turns[0][1])
	m.is("all of theirs but a turn", back)
	m.snapctl("undo", "-y")
	m.is("undo of a revert", theirs)
	m.snapctl("undo", "-y")
	m.is("undo of all", mine)
	m.snapctl("check", "--read-data")
}
