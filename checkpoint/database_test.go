package checkpoint

import (
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/boocode/filestore/internal/dbpipe"
)

// A database is an empty one, to be opened as often as a test likes.
type database struct {
	dialect Dialect
	driver  string
	dsn     string
	piped   bool // by package dbpipe, as snapctl uses it
}

var piped = flag.Bool("piped", false, "use all databases by package dbpipe, as snapctl does")

func (d *database) open(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open(d.driver, d.dsn)
	if err != nil {
		t.Fatal(err)
	}
	if d.piped || *piped {
		db.Close()
		start := func() (io.ReadWriteCloser, error) { return dbpipe.Here(), nil }
		db = sql.OpenDB(dbpipe.NewConnector(d.driver, d.dsn, start))
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// onBoth runs a test on both databases.
func onBoth(t *testing.T, fn func(t *testing.T, d *database)) {
	for db, open := range map[string]func(testing.TB) *database{"sqlite": newSQLite, "postgres": newPostgreSQL} {
		t.Run(db, func(t *testing.T) {
			t.Parallel() // much of it waits for a server or a process
			fn(t, open(t))
		})
	}
}

// onAll runs a test on both databases, and on both by package dbpipe.
func onAll(t *testing.T, fn func(t *testing.T, d *database)) {
	onBoth(t, fn)
	t.Run("piped", func(t *testing.T) {
		onBoth(t, func(t *testing.T, d *database) {
			d.piped = true
			fn(t, d)
		})
	})
}

func newSQLite(t testing.TB) *database {
	path := url.URL{Path: filepath.Join(t.TempDir(), "chats.db")} // names of tests may have a #
	return &database{dialect: SQLite, driver: "sqlite", dsn: "file:" + path.EscapedPath() +
		"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)"}
}

var databases atomic.Int64

func newPostgreSQL(t testing.TB) *database {
	t.Helper()
	server, err := postgres()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skipf("NOT TESTED ON POSTGRESQL: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	admin, err := sql.Open("pgx", server+"postgres")
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	name := fmt.Sprintf("t%d", databases.Add(1))
	if _, err := admin.Exec("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	return &database{dialect: PostgreSQL, driver: "pgx", dsn: server + name}
}

var stopPostgres = func() {}

// postgres starts a server for this process and returns how to reach it, but for
// the name of the database.
var postgres = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "postgres")
	if err != nil {
		return "", err
	}
	stopPostgres = func() { os.RemoveAll(dir) }
	initdb, err := program("initdb")
	if err != nil {
		return "", err
	}
	pgctl, err := program("pg_ctl")
	if err != nil {
		return "", err
	}
	runuser := ""
	if os.Getuid() == 0 {
		if runuser, err = program("runuser"); err != nil {
			return "", err
		}
		if _, err := user.Lookup("postgres"); err != nil {
			return "", fmt.Errorf("%w: root runs the server as postgres: %w", exec.ErrNotFound, err)
		}
	}
	data := filepath.Join(dir, "data")
	run := func(args ...string) error {
		if os.Getuid() == 0 { // with which the server does not run
			args = append([]string{runuser, "-u", "postgres", "--"}, args...)
		}
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = dir
		log, err := os.Create(filepath.Join(dir, "log"))
		if err != nil {
			return err
		}
		defer log.Close()
		cmd.Stdout, cmd.Stderr = log, log // not pipes, which the server would keep open
		if err := cmd.Run(); err != nil {
			b, _ := os.ReadFile(log.Name())
			return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, b)
		}
		return nil
	}
	if os.Getuid() == 0 {
		if out, err := exec.Command("chown", "postgres", dir).CombinedOutput(); err != nil {
			return "", fmt.Errorf("chown: %w: %s", err, out)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	if err := run(initdb, "-D", data, "-A", "trust", "-U", "postgres", "--no-sync"); err != nil {
		return "", err
	}
	options := fmt.Sprintf("-c listen_addresses=127.0.0.1 -p %d -c unix_socket_directories=%s", port, dir)
	if err := run(pgctl, "-D", data, "-o", options, "-l", filepath.Join(dir, "server.log"), "-w", "start"); err != nil {
		return "", err
	}
	stopPostgres = func() {
		if err := run(pgctl, "-D", data, "-m", "immediate", "stop"); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.RemoveAll(dir)
	}
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/", port), nil
})

// program finds a program of PostgreSQL, which Debian keeps out of the path, or of root, whose
// directory is not in the path of everyone who is root.
func program(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) == 0 {
		found, _ = filepath.Glob("/usr/sbin/" + name)
	}
	if len(found) == 0 {
		return "", fmt.Errorf("%s: %w: install postgresql", name, exec.ErrNotFound)
	}
	return found[len(found)-1], nil
}

func TestMain(m *testing.M) {
	code := m.Run()
	stopPostgres()
	os.Exit(code)
}
