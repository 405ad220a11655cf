package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A measurer looks at the store by processes of snapctl and keeps a table.
type measurer struct {
	snapctl  string
	dir      string
	runs     int
	keepLast int
	log      io.Writer

	marks []int
	names []string            // of rows, in order
	cells map[string][]string // by name, one for each mark
	bytes int64               // of the store at the mark before

	recorded int // before we began
}

// begin looks at what was recorded by a run before.
func (m *measurer) begin(ctx context.Context) (err error) {
	st, err := m.stats(ctx, filepath.Join(m.dir, "home"))
	m.recorded, m.bytes = st.Snapshots, st.TotalBytes
	return err
}

// A usage is what a process took and printed.
type usage struct {
	wall   time.Duration
	cpu    time.Duration // user and system
	rss    int64         // peak, in bytes; 0 if unknown
	stdout []byte
}

// command runs a program in the tree, in a home of its own.
func (m *measurer) command(ctx context.Context, args ...string) (*usage, error) {
	return m.commandIn(ctx, filepath.Join(m.dir, "home"), args...)
}

func (m *measurer) commandIn(ctx context.Context, home string, args ...string) (*usage, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = filepath.Join(m.dir, "tree")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "HOME=" + home}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	start := time.Now()
	err := cmd.Run()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %q", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	st := cmd.ProcessState
	return &usage{time.Since(start), st.UserTime() + st.SystemTime(), maxRSS(st), stdout.Bytes()}, nil
}

// set fills a cell of the newest column.
func (m *measurer) set(row, cell string) {
	if m.cells == nil {
		m.cells = make(map[string][]string)
	}
	list, ok := m.cells[row]
	if !ok {
		m.names = append(m.names, row)
	}
	for len(list) < len(m.marks) {
		list = append(list, "")
	}
	list[len(m.marks)-1] = cell
	m.cells[row] = list
}

// column measures the store after n snapshots.
func (m *measurer) column(ctx context.Context, n int, s *span, last bool) error {
	m.marks = append(m.marks, n)
	m.set("a turn's end in a process that stays, median and p99 of the last 1,000", ms(s.Median)+", "+ms(s.P99))
	m.set("a session's first look there, median", ms(s.Opened))
	m.set("recording, all of a turn", fmt.Sprintf("%s a turn", ms(s.Took/time.Duration(s.Snapshots))))
	if err := m.size(n, s); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"version"}, {"log", "-n", "1"}, {"log", "-n", "20"}, {"log", "--all", "-n", "20"}, {"sessions"}, {"show", "@"},
		{"status"}, {"diff", "--stat", "@~1", "@"},
	} {
		if err := m.time(ctx, m.runs, args...); err != nil {
			return err
		}
	}
	if err := m.snapshots(ctx); err != nil {
		return err
	}
	for _, args := range [][]string{{"stats"}, {"du"}, {"du", "--turns", "-n", "20"}, {"check"},
		{"check", "--read-data"}} {
		if err := m.time(ctx, 1, args...); err != nil {
			return err
		}
	}
	return m.upkeep(ctx, last)
}

// patience is how long a command may take.
const patience = 5 * time.Minute

// time adds the row of a command: median times, highest memory.
func (m *measurer) time(ctx context.Context, runs int, args ...string) error {
	row := "`" + strings.Join(args, " ") + "`"
	var walls, cpus []time.Duration
	var rss int64
	for i := range runs + 1 {
		if i == 0 && runs == 1 {
			continue // what takes long has read everything itself
		}
		tctx, cancel := context.WithTimeout(ctx, patience)
		u, err := m.command(tctx, append([]string{m.snapctl}, args...)...)
		gaveUp := tctx.Err() != nil && ctx.Err() == nil
		cancel()
		if gaveUp {
			m.set(row, "more than "+patience.String())
			return nil
		}
		if err != nil {
			return err
		}
		if i > 0 {
			walls, cpus, rss = append(walls, u.wall), append(cpus, u.cpu), max(rss, u.rss)
		}
	}
	m.set(row, ms(quantile(walls, 0.5))+", "+ms(quantile(cpus, 0.5))+", "+size(rss))
	return nil
}

// snapshots times processes that each record one changed file. They are a
// session of their own.
func (m *measurer) snapshots(ctx context.Context) error {
	var walls, cpus []time.Duration
	var rss int64
	name := filepath.Join(m.dir, "tree", "changed.go")
	for i := range 4 * m.runs {
		if err := os.WriteFile(name, fmt.Appendf(nil, "%d of %d\n", i, time.Now().UnixNano()), 0o666); err != nil {
			return err
		}
		u, err := m.command(ctx, m.snapctl, "--session", "cli", "snapshot")
		if err != nil {
			return err
		}
		walls, cpus, rss = append(walls, u.wall), append(cpus, u.cpu), max(rss, u.rss)
	}
	row := fmt.Sprintf("`snapshot` of one file, median of %d", len(walls))
	m.set(row, ms(quantile(walls, 0.5))+", "+ms(quantile(cpus, 0.5))+", "+size(rss))
	m.set("… the slowest", ms(quantile(walls, 1))+", "+ms(quantile(cpus, 1)))
	return nil
}

// size adds what the store takes, and by how much it grew.
func (m *measurer) size(n int, s *span) error {
	sums := make(map[string]int64)
	files := make(map[string]int)
	var total int64
	base := storeRoot(m.dir)
	err := filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(base, path)
		part := ""
		if parts := strings.Split(filepath.ToSlash(rel), "/"); len(parts) > 1 { // else beside the stores
			part = parts[1]
		}
		switch {
		case strings.HasSuffix(rel, ".idx"):
			part = "indexes"
		case part != "packs" && part != "journal" && part != "worktrees":
			part = "other"
		}
		sums[part] += info.Size()
		files[part]++
		total += info.Size()
		return nil
	})
	if err != nil {
		return err
	}
	m.set("store", size(total))
	for _, part := range []string{"packs", "indexes", "journal", "worktrees", "other"} {
		m.set("… "+part, fmt.Sprintf("%s in %d", size(sums[part]), files[part]))
	}
	grown := float64(total-m.bytes) / float64(s.Snapshots)
	if m.bytes > 0 { // else the first snapshot of the whole tree is in it
		m.set("growth for each snapshot since the column before", size(int64(grown)))
		m.set("… times the bytes of lines that came, and of the files they came in", fmt.Sprintf("%.2f, %.2f",
			grown*float64(s.Snapshots)/float64(s.Changed.Edited), grown*float64(s.Snapshots)/float64(s.Changed.Whole)))
	}
	m.set("changed for each snapshot: files, lines that came, whole files", fmt.Sprintf("%.1f, %s, %s",
		float64(s.Changed.Files)/float64(s.Snapshots), size(s.Changed.Edited/int64(s.Snapshots)),
		size(s.Changed.Whole/int64(s.Snapshots))))
	m.bytes = total
	return nil
}

// upkeep times a compaction and a prune where snapctl knows these commands, and a check after each:
// of copies of the store, but the last prune is of the store itself.
func (m *measurer) upkeep(ctx context.Context, last bool) error {
	help, err := m.command(ctx, m.snapctl, "help")
	if err != nil {
		return err
	}
	home, keep := filepath.Join(m.dir, "home"), strconv.Itoa(m.keepLast)
	for _, c := range []struct {
		args []string
		copy bool
	}{{[]string{"compact"}, true}, {[]string{"prune", "--keep-last", keep}, !last}} {
		if !bytes.Contains(help.stdout, []byte("\n  "+c.args[0]+" ")) {
			fmt.Fprintf(m.log, "snapctl has no %s: not measured\n", c.args[0])
			continue
		}
		at := home
		if c.copy {
			at = filepath.Join(m.dir, "copy")
			if err := os.CopyFS(at, os.DirFS(home)); err != nil {
				return err
			}
		}
		if err := m.maintain(ctx, at, c.args); err != nil {
			return err
		}
		if c.copy {
			if err := os.RemoveAll(at); err != nil {
				return err
			}
		}
	}
	return nil
}

// maintain times a command that makes the store in a home smaller, and a check after it.
func (m *measurer) maintain(ctx context.Context, home string, args []string) error {
	before, err := m.stats(ctx, home)
	if err != nil {
		return err
	}
	row := "`" + strings.Join(args, " ") + "`"
	u, err := m.commandIn(ctx, home, append([]string{m.snapctl}, args...)...)
	if err != nil {
		return err
	}
	after, err := m.stats(ctx, home)
	if err != nil {
		return err
	}
	m.set(row, fmt.Sprintf("%s, %s, %s: %s of %s are left", ms(u.wall), ms(u.cpu), size(u.rss), size(after.TotalBytes),
		size(before.TotalBytes)))
	if u, err = m.commandIn(ctx, home, m.snapctl, "check", "--read-data"); err != nil {
		return err
	}
	m.set("`check --read-data` after `"+args[0]+"`", ms(u.wall)+", "+ms(u.cpu)+", "+size(u.rss))
	return nil
}

// stats is what snapctl says of a store.
type stats struct {
	Snapshots  int   `json:"snapshots"`
	TotalBytes int64 `json:"totalBytes"`
}

// stats asks for what the store in a home takes.
func (m *measurer) stats(ctx context.Context, home string) (st stats, err error) {
	u, err := m.commandIn(ctx, home, m.snapctl, "stats", "--json")
	if err != nil {
		return st, err
	}
	return st, json.Unmarshal(u.stdout, &st)
}

func (m *measurer) table() string {
	var b strings.Builder
	b.WriteString("| after so many snapshots; of commands: time, processor time, memory |")
	for _, n := range m.marks {
		fmt.Fprintf(&b, " %s |", comma(n))
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(m.marks)) + "\n")
	for _, name := range m.names {
		fmt.Fprintf(&b, "| %s |", name)
		for i := range m.marks {
			cell := ""
			if list := m.cells[name]; i < len(list) {
				cell = " " + list[i]
			}
			b.WriteString(cell + " |")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func ms(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1e3)
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1e3)
	default:
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
}

func size(n int64) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<20:
		return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
	case n < 10<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n < 10<<30:
		return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20))
	default:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	}
}

func comma(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return comma(n/1000) + fmt.Sprintf(",%03d", n%1000)
}
