package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestRunTTY: in a terminal the program has the keys: Ctrl-C comes to it once, Ctrl-Z stops
// it together with snapctl, and it goes on with it.
func TestRunTTY(t *testing.T) {
	if !*runs {
		t.Skip("SKIPPED: needs a terminal; run with -e2e")
	}
	w := &world{t: t, home: t.TempDir(), dir: t.TempDir()}
	const program = `trap "echo int >>ints" INT; echo ready; while [ ! -e stop ]; do sleep 0.1; done; exit 5`
	w.write("prog.sh", program+"\n")
	cmd := exec.Command("bash", "--norc", "-i")
	cmd.Dir, cmd.Env = w.dir, append(w.env(), "TERM=xterm", "HISTFILE=")
	s := openTTY(t, cmd)
	s.enter(snapctl + " run --session tty -- sh prog.sh")
	s.sees("ready")
	for range 2 {
		s.press("C-c")
		s.press("C-z")
		s.sees("Stopped")
		s.enter("clear; ps -o stat=,args= | grep '[p]rog.sh' | cut -c1; echo shown")
		s.sees("shown")
		s.until("both are stopped", func() bool { return strings.Contains(s.shown(), "T\nT\nshown") })
		s.enter("clear; fg")
	}
	w.write("stop", "")
	s.enter("echo code $?")
	s.sees("code 5")
	b, err := os.ReadFile(w.path("ints"))
	if err != nil || strings.Count(string(b), "int") != 2 {
		t.Errorf("interrupted %q times, %v; want 2", b, err)
	}
	if log := w.snapctl("--session", "tty", "log", "--name-status"); !strings.Contains(log, "A ints") {
		t.Errorf("log: %s", log)
	}
}
